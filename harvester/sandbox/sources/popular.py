"""The popular tags of the sandbox: the same everywhere, with numbers of uses that vary by hour."""

import hashlib
import time
from typing import NamedTuple

TAGS = (
    "cats", "Spring", "Fußball", "Кино", "音楽", "newMusic", "caturday", "gardening", "photography", "café",
    "openSource", "baking", "running", "Eurovision", "night_sky", "trains", "books", "rain", "knitting", "2030goals",
    "chess", "hiking", "مطبخ", "surf", "poetry", "soup", "birds", "lanterns", "drums", "maps",
)  # fmt: skip


class Clock:
    """The time of the sandbox, which tests can set forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        """Returns seconds since the epoch."""
        return time.time() + self.ahead_s


class Popular(NamedTuple):
    """The rank and the number of uses of a tag in an hour."""

    name: str
    rank: int
    uses: int


def popular(where: str, now: float) -> list[Popular]:
    """Returns all tags, the most used first. `where` is a place, or a source with a place."""
    hour = int(now // 3600)
    uses = {
        name: 500 + _chance(f"{where} {name}") % 40_000 + _chance(f"{where} {name} {hour}") % 9_000 for name in TAGS
    }
    ordered = sorted(uses, key=lambda name: -uses[name])
    return [Popular(name, rank, uses[name]) for rank, name in enumerate(ordered, 1)]


def _chance(of: str) -> int:
    return int.from_bytes(hashlib.blake2b(of.encode(), digest_size=4).digest())
