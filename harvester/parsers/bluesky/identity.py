"""Parses where an account is hosted, the intents it declared, and the errors of XRPC calls."""

import re
from typing import NamedTuple

from harvester.exceptions import ParseError
from harvester.parsers.bluesky import wire
from harvester.parsers.json_values import dictionary, string

MOST_INTENTS = 32

_is_origin = re.compile(r"https?://[^/\s@?#\\]+/?").fullmatch
_is_purpose = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}").fullmatch


def parse_did_document(body: bytes) -> str | None:
    """Returns the origin of the account's PDS from its DID document; None if the document names none."""
    document = wire.read_page(wire.decode_any, body)
    services = document.get("service") if isinstance(document, dict) else None
    for service in services if isinstance(services, list) else ():
        if isinstance(service, dict) and str(service.get("id", "")).endswith("#atproto_pds"):
            endpoint = service.get("serviceEndpoint")
            if isinstance(endpoint, str) and _is_origin(endpoint):
                return endpoint.rstrip("/")
    return None


def parse_resolved(body: bytes) -> str:
    """Returns the DID from a response of resolveHandle. Raises ParseError."""
    did = string(wire.read_page(wire.decode_any, body), "did")
    if not did:
        raise ParseError("the answer names no DID")
    return did


def parse_intents(body: bytes) -> dict[str, bool]:
    """Parses getRecord of org.user-intents.declaration. Returns each stated purpose with True if it is allowed."""
    stated = dictionary(wire.read_page(wire.decode_any, body), "value") or {}
    allowed = [
        (purpose, intent["allow"])
        for purpose, intent in stated.items()
        if _is_purpose(purpose) and isinstance(intent, dict) and isinstance(intent.get("allow"), bool)
    ]
    return dict(allowed[:MOST_INTENTS])


class XrpcErrorBody(NamedTuple):
    """The error body of an XRPC call."""

    name: str
    message: str


def parse_error(body: bytes) -> XrpcErrorBody | None:
    """Returns the error of a response; None if the body does not hold an error (HTML, truncated JSON, ...)."""
    try:
        error = wire.decode_error(body)
    except wire.UNREADABLE:
        return None
    return XrpcErrorBody(error.error, error.message or "")
