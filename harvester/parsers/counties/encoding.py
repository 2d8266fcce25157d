"""What old servers send for text."""

from harvester.parsers import decoding


def as_utf8(body: bytes) -> bytes:
    """Returns a county's page as UTF-8: many declare a charset that their pages are not in."""
    return decoding.as_utf8(body, prefers_utf8=True)
