"""What old servers send for text."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def as_utf8(body: bytes) -> bytes:
    """As UTF-8, without a mark before it: some send what Windows calls ANSI, and say nothing of it."""
    body = body.removeprefix(_BYTE_ORDER_MARK)
    try:
        body.decode()
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace").encode()
    return body
