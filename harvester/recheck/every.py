"""The policy `every`: visits at fixed intervals, with a fixed offset for each item."""

from collections.abc import Sequence
from hashlib import blake2b
from math import ceil

import msgspec

from harvester.recheck.durations import duration_text
from harvester.recheck.policy import Due, Look


def share_of(key: str) -> float:
    """Returns a number from 0 to 1 that depends on the key only, and is spread like a random one."""
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest()) / 2**64


class Every(msgspec.Struct, frozen=True):
    """Visits an item each `interval_s` seconds.

    The visits of an item lie on a grid that its key shifts. So the visits of many items are spread over the interval,
    late visits do not move later ones, and a new item moves no other. The first visit after one off the grid comes at
    least half an interval later.
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
