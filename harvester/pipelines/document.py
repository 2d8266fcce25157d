"""Checks that bytes of unknown origin are a document, and reads its text."""

import hashlib
from importlib.util import find_spec

import msgspec

from harvester.bounded.process import BoundedProcess, Bounds
from harvester.exceptions import FileError, NoProcessError, TooCostlyError
from harvester.items import MediaContent
from harvester.parsers.pdf import PdfText, read_pdf

BOUNDS = Bounds(cpu_s=20.0, memory_mb=384, result_mb=16, silence_s=120.0)
"""Limits for reading one document."""
NO_PACKAGE = PdfText(problem="no_package: its text needs a package: pip install 'harvester[pdf]'")


class DocumentReader:
    """Reads PDFs one after the other, in a separate process with limits of time and memory."""

    def __init__(self) -> None:
        self._process = BoundedProcess()
        self._has_package = find_spec("pypdf") is not None

    def read(self, body: bytes) -> MediaContent:
        """Returns the content of a document. A PDF without readable text is accepted, too.

        Raises FileError: empty, not_a_pdf.
        """
        if not body:
            raise FileError("empty")
        if b"%PDF-" not in body[:1024]:
            raise FileError("not_a_pdf", f"it begins with {body[:16]!r}")
        found = self._read_apart(body) if self._has_package else NO_PACKAGE
        return MediaContent(sha256=hashlib.sha256(body).hexdigest(), size=len(body), **msgspec.structs.asdict(found))

    def _read_apart(self, body: bytes) -> PdfText:
        try:
            return self._process.call(BOUNDS, read_pdf, body)  # type: ignore[no-any-return]
        except NoProcessError as error:
            return PdfText(problem=f"not_read: {error}")
        except TooCostlyError as error:
            return PdfText(problem=f"too_costly: {error}")

    def close(self) -> None:
        """Ends the process."""
        self._process.close()
