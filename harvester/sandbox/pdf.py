"""Writes valid PDFs in a few lines: a page for each list of lines."""

from collections.abc import Sequence


def pdf(*pages: Sequence[str]) -> bytes:
    """Returns a PDF on letter paper, in Helvetica, uncompressed."""
    numbers = [4 + 2 * index for index in range(len(pages))]
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(pages), b" ".join(b"%d 0 R" % number for number in numbers)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for number, lines in zip(numbers, pages, strict=True):
        shown = b"".join(b"(%b)Tj T* " % _escaped(line) for line in lines)
        content = b"BT /F1 11 Tf 15 TL 72 720 Td %bET" % shown
        objects += [
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
            % (number + 1),
            b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
        ]
    body, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    table = b"0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    return body + b"xref\n0 %d\n%btrailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (
        count,
        table,
        count,
        len(body),
    )


def _escaped(line: str) -> bytes:
    return line.encode("cp1252", "replace").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
