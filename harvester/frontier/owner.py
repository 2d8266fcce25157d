"""With which Redis the jobs of a spider are worked at: with one at a time, since two would be fed the same items.

A Redis is known by the epoch of the spider's frontier, which lies there: each machine may have another address for it.
Collection `frontiers`, in the spider's document: `epoch`, `redis`, `worker`, and `beats`, which workers count up. No
clocks are compared: another Redis is in use if its beats rise while one looks on, and is not if they stand still.
"""

import logging
from time import monotonic

from pymongo.errors import DuplicateKeyError
from scrapy.crawler import Crawler

from harvester.config import Config, variable_of
from harvester.exceptions import UsageError
from harvester.frontier.frontier_record import Document, SpiderDocument
from harvester.stores import redis

logger = logging.getLogger(__name__)

BEATS_A_LEASE = 6
"""Beats of a frontier that is in use, in the time of a lease. Without any in that time it is not."""
PROOF = 2
"""Beats that show that another Redis is in use: the worker of the first may not have noticed yet that it is lost."""


class FrontierOwner(SpiderDocument):
    """Keeps the jobs of this crawler's spider to one Redis."""

    def __init__(self, crawler: Crawler, config: Config, worker: str) -> None:
        super().__init__(crawler, config)
        self._own = {"worker": worker, "redis": redis.named(config)}
        self._epoch = self._epoch_before = ""
        """Of the frontier that this process works with, and of the one that Redis forgot."""
        self._seen: tuple[str | None, int | None] | None = None
        """Epoch and beats as they were at the last look."""
        self._seen_at = 0.0
        """Since when they are so, on the monotonic clock."""
        self._proofs = 0
        """Beats of another Redis while this process looked on."""
        self._look_at = 0.0

    async def holds(self, epoch: str, heard_at: float) -> bool:
        """Whether jobs may be worked at with the frontier of this epoch, which was heard then (monotonic clock).

        To be asked again and again: that is the beat. False: another Redis was in use a moment ago, and it is not known
        yet whether it still is. Raises UsageError when it is.
        """
        now = monotonic()
        if epoch != self._epoch:
            self._epoch, self._epoch_before = epoch, self._epoch
        elif now < self._look_at:
            return True
        known: Document = await self._patiently(lambda: self._documents.find_one({"_id": self._spider})) or {}
        is_free = self._note(known, now)
        beat_s = self._config.lease_seconds / BEATS_A_LEASE
        is_held = known.get("epoch") == epoch
        # A beat says that Redis was heard since the one before.
        if is_free and (not is_held or (now - self._seen_at >= beat_s and heard_at > self._seen_at)):
            is_held = await self._beat(known)
        if is_held:
            self._look_at = now + beat_s / 2
        return is_held

    def _note(self, known: Document, now: float) -> bool:
        """Whether the document is this frontier's, or no other's that may be in use. Raises UsageError."""
        seen = (known.get("epoch"), known.get("beats"))
        is_ours = seen[0] in (None, self._epoch, self._epoch_before)
        if seen != self._seen:
            rose = self._seen is not None and seen[0] == self._seen[0]
            self._proofs = self._proofs + 1 if rose and not is_ours else 0
            if not rose and not is_ours:
                logger.info(
                    "The jobs of %s were worked at with another Redis (%s, by %s); waiting until it is known whether"
                    " they still are",
                    self._spider,
                    known.get("redis"),
                    known.get("worker"),
                )
            self._seen, self._seen_at = seen, now
        if self._proofs >= PROOF:
            raise UsageError(
                f"The jobs of {self._spider} are worked at with another Redis: {known['redis']}, by {known['worker']}."
                f" This process has {self._own['redis']}. Both would fetch the same items: set the same"
                f" {variable_of('redis_url')} for all processes that share a MongoDB."
            )
        return is_ours or now - self._seen_at >= self._config.lease_seconds

    async def _beat(self, known: Document) -> bool:
        """Whether nobody else has changed the document meanwhile."""
        same = {"epoch": known["epoch"], "beats": known.get("beats")} if known else {"epoch": {"$exists": False}}
        change = {"$set": {**self._own, "epoch": self._epoch}, "$inc": {"beats": 1}}
        try:
            result = await self._patiently(
                lambda: self._documents.update_one({"_id": self._spider, **same}, change, upsert=not known)
            )
        except DuplicateKeyError:
            return False
        return bool(result.matched_count or result.upserted_id)

    async def leave(self) -> None:
        """No worker is left that works with this frontier: any other may be used at once."""
        await self._try(self._documents.delete_one({"_id": self._spider, "epoch": self._epoch}))
