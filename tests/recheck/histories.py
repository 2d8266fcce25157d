"""Histories of looks, made for tests."""

from collections.abc import Sequence

from harvester.recheck import Look

NOW = 1_790_000_000.0
DAY = 86_400.0


def history(found: Sequence[int | None], days: float = 1.0, cost: float = 1.0) -> list[Look]:
    """Looks of which the last is at NOW, at equal distances, that found so many."""
    first = NOW - days * DAY * (len(found) - 1)
    return [Look(first + days * DAY * number, new, cost=cost) for number, new in enumerate(found)]


def changes(changed: Sequence[bool], days: float = 1.0) -> list[Look]:
    """The same of a thing that tells only whether it changed."""
    return [Look(look.at, None, bool(look.found)) for look in history(changed, days)]
