"""What is popular in the sandbox: the same tags everywhere, whose use goes up and down with the hours of its clock."""

import hashlib
import time
from typing import NamedTuple

TAGS = (
    "cats", "Spring", "Fußball", "Кино", "音楽", "newMusic", "caturday", "gardening", "photography", "café",
    "openSource", "baking", "running", "Eurovision", "night_sky", "trains", "books", "rain", "knitting", "2030goals",
    "chess", "hiking", "مطبخ", "surf", "poetry", "soup", "birds", "lanterns", "drums", "maps",
)  # fmt: skip


class Clock:
    """The time of the sandbox, which tests turn."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        """Seconds of the epoch."""
        return time.time() + self.ahead_s


class Popular(NamedTuple):
    """A tag at an hour."""

    name: str
    rank: int
    uses: int


def popular(where: str, now: float) -> list[Popular]:
    """All tags, the most used first. `where`: of which place."""
    hour = int(now // 3600)
    uses = {
        name: 500 + _chance(f"{where} {name}") % 40_000 + _chance(f"{where} {name} {hour}") % 9_000 for name in TAGS
    }
    ordered = sorted(uses, key=lambda name: -uses[name])
    return [Popular(name, rank, uses[name]) for rank, name in enumerate(ordered, 1)]


def _chance(of: str) -> int:
    return int.from_bytes(hashlib.blake2b(of.encode(), digest_size=4).digest())
