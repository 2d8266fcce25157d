"""Identifiers of the AT protocol: DIDs, record keys made from times, content identifiers."""

import hashlib
from collections.abc import Mapping
from datetime import date, timedelta
from functools import lru_cache

from harvester.sandbox.dag_cbor import CBOR_CID_PREFIX, RAW_CID_PREFIX, base32, cid_text, encode, from_base32

_MASK = (1 << 64) - 1
_TID_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"
_TID_PAIRS = [a + b for a in _TID_DIGITS for b in _TID_DIGITS]
_TID_VALUES = {digit: value for value, digit in enumerate(_TID_DIGITS)}
_EPOCH = date(1970, 1, 1)


def mix(value: int, salt: int) -> int:
    """Returns 64 well scattered bits from two numbers."""
    mixed = (value * 0x9E3779B97F4A7C15 + salt * 0xD1B54A32D192ED03 + 0x632BE59BD9B4E019) & _MASK
    mixed = ((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 32)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 29)


class DidCodec:
    """Makes DIDs that look like did:plc, and reads the account's number back from them."""

    def __init__(self, seed: int) -> None:
        self._key = b"did%d" % seed

    def encode(self, index: int) -> str:
        head = hashlib.blake2b(index.to_bytes(4), digest_size=11, key=self._key).digest()
        tail = (int.from_bytes(self._mask(head)) ^ index).to_bytes(4)
        return "did:plc:" + base32(head + tail)

    def decode(self, did: str) -> int | None:
        """Returns the account's number, or None for a DID that this codec has not made."""
        if len(did) != 32 or not did.startswith("did:plc:"):
            return None
        try:
            raw = from_base32(did[8:])
        except ValueError:
            return None
        index = int.from_bytes(self._mask(raw[:11])) ^ int.from_bytes(raw[11:])
        return index if self.encode(index) == did else None

    def _mask(self, head: bytes) -> bytes:
        return hashlib.blake2b(head, digest_size=4, key=self._key).digest()


def tid(micros: int, clock: int) -> str:
    """Returns a record key: 13 sortable characters for a time in microseconds and a clock number."""
    value = (micros << 10) | (clock & 1023)
    pairs = [_TID_PAIRS[(value >> shift) & 1023] for shift in range(50, -1, -10)]
    return _TID_DIGITS[value >> 60] + "".join(pairs)


def tid_micros(key: str) -> int | None:
    """Returns the time in a record key, in microseconds; None for a malformed key."""
    if len(key) != 13:
        return None
    value = 0
    for digit in key:
        part = _TID_VALUES.get(digit)
        if part is None:
            return None
        value = (value << 5) | part
    return value >> 10


def timestamp(millis: int) -> str:
    """Formats a time like the API: 2024-01-01T00:00:00.000Z."""
    days, rest = divmod(millis, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, rest = divmod(rest, 1_000)
    return f"{_day(days)}T{hours:02d}:{minutes:02d}:{seconds:02d}.{rest:03d}Z"


@lru_cache(4_096)
def _day(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).isoformat()


def encode_block(value: object) -> tuple[bytes, bytes]:
    """Returns the binary CID and the DAG-CBOR bytes of a value, such as a record in JSON form."""
    block = encode(value)
    return CBOR_CID_PREFIX + hashlib.sha256(block).digest(), block


def record_cid(record: Mapping[str, object]) -> str:
    """Returns the CID of a record in JSON form."""
    return cid_text(encode_block(record)[0])


def raw_cid(content: bytes) -> str:
    """Returns the CID of a blob."""
    return cid_text(RAW_CID_PREFIX + hashlib.sha256(content).digest())
