"""The policy `every`: looks at fixed distances, and each item at a place of its own between two of them."""

from collections.abc import Sequence
from hashlib import blake2b
from math import ceil

import msgspec

from harvester.recheck.durations import duration_text
from harvester.recheck.policy import Due, Look


def share_of(key: str) -> float:
    """A number from 0 to 1 that is always the key's, and as good as random between keys."""
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest()) / 2**64


class Every(msgspec.Struct, frozen=True):
    """A look each `interval_s` seconds.

    An item's looks lie on a grid that its key shifts: so those of many items are spread over the interval, they do not
    wander however late each is, and an item which comes anew moves no other. The first look after one that lies off the
    grid keeps half an interval from it.
    """

    interval_s: int

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        if not looks:
            return Due(now, "never looked at")
        shift = share_of(key) * self.interval_s
        step = ceil((looks[-1].at + self.interval_s / 2 - shift) / self.interval_s)
        return Due(step * self.interval_s + shift, f"every {duration_text(self.interval_s)}")

    def __str__(self) -> str:
        return f"every {duration_text(self.interval_s)}"
