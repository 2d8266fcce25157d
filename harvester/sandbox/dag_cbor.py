"""Encodes records and tree nodes as DAG-CBOR, whose digests are content identifiers, and bytes as base32.

The library for this (libipld) is an optional extra, which only code that reads or writes repositories needs. The
sandbox encodes every record. https://ipld.io/specs/codecs/dag-cbor/spec/
"""

from base64 import b32decode, b32encode
from functools import lru_cache

CBOR_CID_PREFIX = b"\x01\x71\x12\x20"
"""First bytes of the CID of a DAG-CBOR block; the SHA-256 of the block follows."""
RAW_CID_PREFIX = b"\x01\x55\x12\x20"
"""First bytes of the CID of a blob; the SHA-256 of the blob follows."""
_CID_BYTES = 36
_LINK = b"\xd8\x2a"
_SIMPLE = {False: b"\xf4", True: b"\xf5", None: b"\xf6"}


def encode(value: object) -> bytes:
    """Encodes a value. Links are binary CIDs, or as in JSON: {"$link": text}."""
    if isinstance(value, str):
        return _sized(3, value.encode())
    if isinstance(value, dict):
        if "$link" in value:
            return _link(cid_bytes(value["$link"]))
        parts = sorted([(_key(key), encode(part)) for key, part in value.items()])
        return _head(5, len(parts)) + b"".join([key + part for key, part in parts])
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join([encode(part) for part in value])
    if isinstance(value, bytes):
        is_cid = len(value) == _CID_BYTES and value.startswith((CBOR_CID_PREFIX, RAW_CID_PREFIX))
        return _link(value) if is_cid else _sized(2, value)
    if isinstance(value, bool) or value is None:
        return _SIMPLE[value]
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    raise TypeError(f"no record holds a {type(value).__name__}")


def base32(content: bytes) -> str:
    """Encodes as the AT protocol does: small letters, without padding."""
    return b32encode(content).decode().rstrip("=").lower()


def from_base32(text: str) -> bytes:
    """Decodes `base32`. Raises ValueError."""
    return b32decode(text.upper() + "=" * (-len(text) % 8))


def cid_text(cid: bytes) -> str:
    return "b" + base32(cid)


@lru_cache(10_000)
def cid_bytes(text: str) -> bytes:
    return from_base32(text[1:])


def _link(cid: bytes) -> bytes:
    return _LINK + _sized(2, b"\0" + cid)


@lru_cache(1_000)
def _key(name: str) -> bytes:
    return _sized(3, name.encode())


def _sized(major: int, content: bytes) -> bytes:
    return _head(major, len(content)) + content


def _head(major: int, number: int) -> bytes:
    """Encodes the type of a value, with its length or the number itself, in as few bytes as possible."""
    kind = major << 5
    if number < 24:
        return bytes((kind | number,))
    if number < 1 << 8:
        return bytes((kind | 24, number))
    if number < 1 << 16:
        return bytes((kind | 25,)) + number.to_bytes(2)
    if number < 1 << 32:
        return bytes((kind | 26,)) + number.to_bytes(4)
    return bytes((kind | 27,)) + number.to_bytes(8)
