"""Budgets of looks: how many a day a job, or a site, may have. Pure.

The day has as many slots as the budget has looks, evenly spread, and a look takes one. Taken slots are written into
items with the claim itself, and no two items may have the same one: so a budget is kept by any number of feeders, and
when they are killed. A slot that nobody has used when its minute is over, or the next one begins, is gone: after a
pause nothing is made up for. So no minute of the clock has more than the budget's share of it, rounded up.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import ceil
from typing import NamedTuple

from harvester.jobs.documents import Job
from harvester.sites import load_sites

MINUTES = 1440
"""Of a day."""
MOST_SLOTS = 100
"""That an item remembers: those which may be taken now are among them, on a machine whose clock is late, too."""


class DailyBudget(NamedTuple):
    """So many looks a day, in UTC."""

    name: str
    """Whose it is: `job`, or `site` and its name. No other budget has it."""
    looks: int

    def slots(self, at: datetime) -> list[str]:
        """Names of those that may be taken now."""
        minute = int(at.timestamp()) // 60
        first = minute * self.looks // MINUTES
        return [self._slot(each) for each in range(first, max((minute + 1) * self.looks // MINUTES, first + 1))]

    def next_at(self, at: datetime) -> datetime:
        """When there are others."""
        minute = int(at.timestamp()) // 60
        following = minute + 1
        if self.looks < MINUTES:
            following = ceil((minute * self.looks // MINUTES + 1) * MINUTES / self.looks)
        return datetime.fromtimestamp(following * 60, UTC)

    def _slot(self, number: int) -> str:
        return f"{self.name} {self.looks} {number}"


def of_job(job: Job) -> DailyBudget | None:
    """That of a job, if it has one."""
    return DailyBudget(f"job {job.id}", job.looks_a_day) if job.looks_a_day else None


def of_site(site: str) -> DailyBudget | None:
    """That of a site, if its entry has one."""
    looks = load_sites().named(site).politeness.looks_a_day if site else None
    return DailyBudget(f"site {site}", looks) if looks else None


def kept_slots(slots: Iterable[str], taken: Iterable[str]) -> tuple[str, ...]:
    """Those that an item remembers, with those that its new look takes."""
    return (*slots, *taken)[-MOST_SLOTS:]
