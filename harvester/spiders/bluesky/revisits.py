"""The start of the posts that a visit reads, for accounts of a recurring job."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

from harvester.items import Stage
from harvester.jobs.documents import Item, JobItem, looked_at
from harvester.spiders.pagination import CUT_SHORT

OVERLAP = timedelta(days=1)
"""Overlap of two visits: a post may become visible this late."""
WHOLE_EVERY = timedelta(days=30)
"""Time between complete visits of an account, which notice that old posts are missing."""
POSTS_COLLECTED = "posts_collected"
NEWER_COLLECTED = "newer_posts_collected"
"""Stage of an account whose posts were read back to the last visit."""
FEED_ENDED_EARLY = "feed_ended_early"
"""Stage of an account whose feed showed far fewer posts than its profile counts."""
READ_INSTEAD = "posts_collected_from_server"
"""Stage of an account whose posts were then read from its own server."""
NOT_WHOLE = frozenset({CUT_SHORT, FEED_ENDED_EARLY})
"""Stages of accounts with missing data: the next visit reads them from the beginning."""


def since_of(item: JobItem, now: datetime) -> datetime | None:
    """Returns the start of the posts that a new visit reads; None: all posts."""
    if item.stage in NOT_WHOLE or item.was_missing:
        return None
    if item.looked is None or _period(item.key, item.looked) != _period(item.key, now):
        return None
    return item.looked - OVERLAP


def read_since(item: Item) -> datetime | None:
    """Returns the start of the posts that the last visit has read; None: all posts."""
    if item.stage != NEWER_COLLECTED:
        return None
    before = looked_at(item.looks[:-1])
    return before - OVERLAP if before else None


def collected(account: Mapping[str, Any]) -> Stage:
    """Returns the stage of an account whose wanted posts were all read."""
    return Stage(account["id"], NEWER_COLLECTED if account.get("since") else POSTS_COLLECTED, 2)


def _period(key: str, at: datetime) -> int:
    """Returns the number of whole periods until a time. The periods of different accounts start at different times."""
    phase = timedelta(seconds=crc32(key.encode()) % int(WHOLE_EVERY.total_seconds()))
    return (at - datetime.fromtimestamp(0, UTC) + phase) // WHOLE_EVERY
