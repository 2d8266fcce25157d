"""Reads the text of a PDF. A pure function for a bounded process, since hostile documents may crash it."""

from io import BytesIO

import msgspec

MOST_TEXT = 1_000_000
"""Maximum number of characters of a document's text."""
MOST_PROBLEM = 200
"""Maximum number of characters of the library's error message."""


class PdfText(msgspec.Struct, omit_defaults=True):
    """The text and the number of pages of a PDF."""

    pages: int | None = None
    text: str | None = None
    problem: str | None = None
    """Reason why the text is missing or incomplete."""


def read_pdf(body: bytes) -> PdfText:
    """Reads a PDF from any bytes. A part that cannot be read is reported as a problem, not as an exception."""
    if b"%%EOF" not in body[-1024:]:
        return PdfText(problem=f"truncated: it breaks off after {len(body)} bytes")
    from pypdf import PdfReader  # an optional package, and slow to import
    from pypdf.errors import FileNotDecryptedError

    found = PdfText()
    try:
        pages = PdfReader(BytesIO(body)).pages
        found.pages = len(pages)
        found.text = ""
        for page in pages:
            found.text += page.extract_text().strip() + "\n"
            if len(found.text) > MOST_TEXT:
                found.problem = f"too_long: its text is longer than {MOST_TEXT} characters"
                break
    except FileNotDecryptedError:
        found.problem = "encrypted: it wants a password"
    except Exception as error:  # noqa: BLE001  hostile bytes make the library raise nearly anything
        found.problem = _storable(f"damaged: {type(error).__name__}: {error}", MOST_PROBLEM)
    if found.text is not None:
        found.text = _storable(found.text, MOST_TEXT).strip()
    return found


def _storable(text: str, most: int) -> str:
    """Removes NUL and lone surrogates, which databases refuse."""
    return text[:most].replace("\0", "").encode("utf-8", "replace").decode()
