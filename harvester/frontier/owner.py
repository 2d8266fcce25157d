"""Binds the jobs of a spider to one Redis, since two would be fed the same items.

A Redis is identified by the epoch of the spider's frontier, stored there: each machine may know it under another
address. Collection `frontiers`, in the spider's document: `epoch`, `redis`, `worker`, and `beats`, which workers
increment. No clocks are compared: another Redis is in use if its beats rise while this process watches, and unused if
they stay the same.
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
"""Number of beats of a frontier in use within the time of a lease. Without a beat in that time it is unused."""
PROOF = 2
"""Beats that prove that another Redis is in use: the worker of the first may not have noticed its loss yet."""


class FrontierOwner(SpiderDocument):
    """Binds the jobs of this crawler's spider to one Redis."""

    def __init__(self, crawler: Crawler, config: Config, worker: str) -> None:
        super().__init__(crawler, config)
        self._own = {"worker": worker, "redis": redis.named(config)}
        self._epoch = self._epoch_before = ""
        """The epoch of this process's frontier, and of the one that Redis forgot."""
        self._seen: tuple[str | None, int | None] | None = None
        """Epoch and beats at the last check."""
        self._seen_at = 0.0
        """Monotonic time since which they are unchanged."""
        self._proofs = 0
        """Number of another Redis's beats that this process has seen."""
        self._look_at = 0.0

    async def holds(self, epoch: str, heard_at: float) -> bool:
        """Returns True if jobs may run with the frontier of this epoch, last heard at that monotonic time.

        To be called often: each call may be a beat. False: another Redis was in use a moment ago, and it is not known
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
        # a beat confirms that Redis has replied since the last one
        if is_free and (not is_held or (now - self._seen_at >= beat_s and heard_at > self._seen_at)):
            is_held = await self._beat(known)
        if is_held:
            self._look_at = now + beat_s / 2
        return is_held

    def _note(self, known: Document, now: float) -> bool:
        """Returns True if the document belongs to this frontier, or to an unused one. Raises UsageError."""
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
        """Writes a beat. Returns False if another process changed the document meanwhile."""
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
        """Releases the jobs when no worker of this frontier is left, so that another Redis may be used at once."""
        await self._try(self._documents.delete_one({"_id": self._spider, "epoch": self._epoch}))
