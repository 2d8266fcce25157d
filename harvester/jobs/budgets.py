"""Daily budgets of visits to the items of a job or a site. Pure.

A day has as many slots as the budget has visits, evenly spread, and each visit takes one slot. The claim writes the
taken slots into the item, and a unique index gives each slot to one item only. So any number of feeders keeps the
budget, even when they are killed. A slot expires when its minute is over, or when the next slot begins: after a
pause no visit is made up for. So no minute of the clock has more than its share of the budget, rounded up.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import ceil
from typing import NamedTuple

from harvester.jobs.documents import Job
from harvester.sites import load_sites

MINUTES = 1440
"""Minutes of a day."""
MOST_SLOTS = 100
"""Maximum number of slots that an item remembers. They include the slots that may be taken now, even on a machine with
a slow clock."""


class DailyBudget(NamedTuple):
    """A maximum number of visits a day, in UTC."""

    name: str
    """The owner of the budget: `job` with its id, or `site` with its name. It is unique."""
    looks: int

    def slots(self, at: datetime) -> list[str]:
        """Returns the names of the slots that may be taken now."""
        minute = int(at.timestamp()) // 60
        first = minute * self.looks // MINUTES
        return [self._slot(each) for each in range(first, max((minute + 1) * self.looks // MINUTES, first + 1))]

    def next_at(self, at: datetime) -> datetime:
        """Returns the time when the next slots begin."""
        minute = int(at.timestamp()) // 60
        following = minute + 1
        if self.looks < MINUTES:
            following = ceil((minute * self.looks // MINUTES + 1) * MINUTES / self.looks)
        return datetime.fromtimestamp(following * 60, UTC)

    def _slot(self, number: int) -> str:
        return f"{self.name} {self.looks} {number}"


def of_job(job: Job) -> DailyBudget | None:
    """Returns the budget of a job, or None."""
    return DailyBudget(f"job {job.id}", job.looks_a_day) if job.looks_a_day else None


def of_site(site: str) -> DailyBudget | None:
    """Returns the budget in a site's entry, or None."""
    looks = load_sites().named(site).politeness.looks_a_day if site else None
    return DailyBudget(f"site {site}", looks) if looks else None


def kept_slots(slots: Iterable[str], taken: Iterable[str]) -> tuple[str, ...]:
    """Returns the latest slots of an item, with those that its new visit takes."""
    return (*slots, *taken)[-MOST_SLOTS:]
