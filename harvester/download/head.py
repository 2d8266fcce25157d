"""Repairs the head of an HTTP/1 response for aiohttp's strict parser, as far as a browser would read it.

Servers write what RFC 9112 forbids: status lines without a reason, `ICY 200 OK`, lines that end in LF alone, folded
lines, lines without a colon, two equal lengths, control characters. Chromium reads all these.
"""

import re

MOST_HEAD = 256 * 1024
"""Maximum bytes of a head, the same as in Chromium."""

_is_plain = re.compile(
    rb"HTTP/1\.[01] [1-9]\d\d(?: [ -~]*)?\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\n-\x1f\x7f]*\r\n)*\r\n"
).fullmatch
_status_line = re.compile(
    rb"\s{0,4}(?:HTTP(?:/(\d+)(?:\.(\d+))?)?|ICY)[ \t]+([1-9]\d\d)(?!\d)([^\n]*)\n", re.IGNORECASE
).match
_beginning = re.compile(rb"\s{0,4}(?:HTTP[/ \t]|ICY[ \t])", re.IGNORECASE).match
_end = re.compile(rb"\n\r?\n").search
_is_name = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_control = re.compile(rb"[\x00-\x08\n-\x1f\x7f]+")
_lengths = re.compile(rb"^(?:content-length|transfer-encoding):.*$", re.IGNORECASE | re.MULTILINE).findall
_is_length = re.compile(rb"content-length:[ \t]*\d{1,18}[ \t]*\r|transfer-encoding", re.IGNORECASE).match


def end_of_head(data: bytes | bytearray, searched: int = 0) -> int | None:
    """Returns the index of the body. None if the head is incomplete, 0 if the data is not a head.

    `searched` is the number of bytes that an earlier call has searched.
    """
    if len(data) >= 9 and not _beginning(data):
        return 0
    found = _end(data, max(0, searched - 2))
    return found.end() if found else None


def status_of(head: bytes) -> int:
    """Returns the status in a head; 0 without one."""
    found = _status_line(head)
    return int(found[3]) if found else 0


def normalized(head: bytes) -> bytes:
    """Returns the head in the form of RFC 9112. A head that no browser reads is returned unchanged."""
    if _is_plain(head) and len(lengths := _lengths(head)) < 2 and all(map(_is_length, lengths)):
        return head
    status = _status_line(head)
    if not status:
        return head
    version = b"1.1" if (int(status[1] or 0), int(status[2] or 0)) >= (1, 1) else b"1.0"
    lines = [b"HTTP/%s %s %s" % (version, status[3], _control.sub(b" ", status[4]).strip())]
    lines += [b"%s: %s" % field for field in _with_one_length(_fields(head[status.end() :]))]
    return b"\r\n".join([*lines, b"", b""])


def _fields(text: bytes) -> list[tuple[bytes, bytes]]:
    """Returns names and values. Drops lines without a name, and joins folded lines."""
    fields: list[tuple[bytes, bytes]] = []
    for line in text.split(b"\n"):
        if line[:1] in (b" ", b"\t"):
            if fields and line.strip():
                name, value = fields[-1]
                fields[-1] = name, value + b" " + _control.sub(b" ", line).strip()
            continue
        name, colon, value = line.partition(b":")
        name = name.rstrip(b" \t")
        if colon and _is_name(name):
            fields.append((name, _control.sub(b" ", value).strip()))
    return fields


def _with_one_length(fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Keeps one Content-Length if all agree. Keeps none for a chunked body, or without a number.

    The transfer coding `identity` is dropped, because it no longer exists (RFC 7230, appendix A.2).
    """
    fields = [field for field in fields if (field[0].lower(), field[1].lower()) != (b"transfer-encoding", b"identity")]
    others = [field for field in fields if field[0].lower() != b"content-length"]
    told = {part.strip() for name, value in fields if name.lower() == b"content-length" for part in value.split(b",")}
    lengths = {int(part) for part in told if part.isdigit() and len(part) < 20}
    if len(lengths) > 1:
        return fields  # the end of the body cannot be known
    chunked = any(name.lower() == b"transfer-encoding" and value for name, value in fields)
    return others if chunked or not lengths else [*others, (b"Content-Length", b"%d" % lengths.pop())]
