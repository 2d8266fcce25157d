"""How far back an account of a standing job is read when it is looked at again."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

from harvester.items import Stage
from harvester.jobs.documents import Item, JobItem, looked_at
from harvester.spiders.pagination import CUT_SHORT

OVERLAP = timedelta(days=1)
"""Before the last look, from when on posts are read again: that late a post may become visible."""
WHOLE_EVERY = timedelta(days=30)
"""How often an account is read from its beginning, so that it is noticed which old posts are gone."""
POSTS_COLLECTED = "posts_collected"
NEWER_COLLECTED = "newer_posts_collected"
"""Stage of an account whose posts were read as far back as the last look."""
FEED_ENDED_EARLY = "feed_ended_early"
"""Stage of an account whose feed showed far fewer posts than its profile says that there are."""
READ_INSTEAD = "posts_collected_from_server"
"""Stage of an account whose posts were read from its own server then."""
NOT_WHOLE = frozenset({CUT_SHORT, FEED_ENDED_EARLY})
"""Stages of accounts of which something is missing: the next look reads them from the beginning."""


def since_of(item: JobItem, now: datetime) -> datetime | None:
    """From when on a look that begins now reads the posts of an account; None: all."""
    if item.stage in NOT_WHOLE or item.was_missing:
        return None
    if item.looked is None or _period(item.key, item.looked) != _period(item.key, now):
        return None
    return item.looked - OVERLAP


def read_since(item: Item) -> datetime | None:
    """From when on the look that has just ended has read the posts; None: all."""
    if item.stage != NEWER_COLLECTED:
        return None
    before = looked_at(item.looks[:-1])
    return before - OVERLAP if before else None


def collected(account: Mapping[str, Any]) -> Stage:
    """The stage of an account all of whose posts that were to be read were read."""
    return Stage(account["id"], NEWER_COLLECTED if account.get("since") else POSTS_COLLECTED, 2)


def _period(key: str, at: datetime) -> int:
    """The whole periods until then: those of different accounts begin at different times."""
    phase = timedelta(seconds=crc32(key.encode()) % int(WHOLE_EVERY.total_seconds()))
    return (at - datetime.fromtimestamp(0, UTC) + phase) // WHOLE_EVERY
