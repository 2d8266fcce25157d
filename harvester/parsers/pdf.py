"""The text of a PDF. A pure function, for a process that has bounds: hostile documents may take it down."""

from io import BytesIO

import msgspec

MOST_TEXT = 1_000_000
"""Characters that are kept of a document's text."""
MOST_PROBLEM = 200
"""Likewise of what the library says."""


class PdfText(msgspec.Struct, omit_defaults=True):
    """What is read of a PDF."""

    pages: int | None = None
    text: str | None = None
    problem: str | None = None
    """Why there is no text, or not all of it."""


def read_pdf(body: bytes) -> PdfText:
    """Whatever the bytes are: what cannot be read is a problem, and no exception."""
    if b"%%EOF" not in body[-1024:]:
        return PdfText(problem=f"truncated: it breaks off after {len(body)} bytes")
    from pypdf import PdfReader  # an extra, and its import takes as long as that of everything here
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
    """Without NUL and halves of pairs, which databases refuse."""
    return text[:most].replace("\0", "").encode("utf-8", "replace").decode()
