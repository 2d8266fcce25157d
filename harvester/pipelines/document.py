"""Bytes of unknown origin as a document: whether it is one, and what stands in it."""

import hashlib
import subprocess
from importlib.util import find_spec
from threading import Timer

import msgspec

from harvester.bounded.process import start_child
from harvester.exceptions import FileError
from harvester.items import MediaContent
from harvester.parsers.pdf import LENGTH_BYTES, PdfText

MOST_S = 20.0
"""How long a document may take to be read."""
NO_PACKAGE = PdfText(problem="no_package: its text needs a package: pip install 'harvester[pdf]'")


class DocumentReader:
    """Reads PDFs one after the other, in a process of its own that has bounds of time and memory."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._has_package = find_spec("pypdf") is not None

    def read(self, body: bytes) -> MediaContent:
        """What is known of a document. One whose text cannot be had is a document, too.

        Raises FileError: empty, not_a_pdf.
        """
        if not body:
            raise FileError("empty")
        if b"%PDF-" not in body[:1024]:
            raise FileError("not_a_pdf", f"it begins with {body[:16]!r}")
        found = self._asked(body) if self._has_package else NO_PACKAGE
        return MediaContent(sha256=hashlib.sha256(body).hexdigest(), size=len(body), **msgspec.structs.asdict(found))

    def _asked(self, body: bytes) -> PdfText:
        if self._process and self._process.poll() is not None:
            self.close()  # it was killed when it had read the last one, as by a machine short of memory
        try:
            process = self._process = self._process or start_child("harvester.parsers.pdf")
        except OSError as error:
            return PdfText(problem=f"not_read: no process to read it can be started here: {error.strerror}")
        assert process.stdin
        assert process.stdout
        timer = Timer(MOST_S, process.kill)
        timer.start()
        try:
            process.stdin.write(len(body).to_bytes(LENGTH_BYTES) + body)
            process.stdin.flush()
            return msgspec.json.decode(process.stdout.readline(), type=PdfText)
        except (OSError, msgspec.DecodeError):  # it was killed, or has ended
            self.close()
            return PdfText(problem=f"too_costly: it takes more than {MOST_S:.0f} seconds, or too much memory, to read")
        finally:
            timer.cancel()

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()
