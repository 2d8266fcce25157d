"""What people change of a job's items while workers run: take some out, give them another input, look more often.

Workers see it when they ask for what is due, within a second. An attempt that is under way comes to its end first.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, cast

from harvester.exceptions import InvalidRecordError, JobConflict, UnknownJob, UsageError
from harvester.items import Found
from harvester.jobs.documents import Document, Item, Job, JobState, read_item
from harvester.jobs.ledger import CHUNK, Ledger
from harvester.jobs.submission import refuse_variables
from harvester.jobs.transitions import Changed, Removed
from harvester.project import load_spider

LEAST_OFTEN, MOST_OFTEN = 0.01, 100.0
"""How many times as often an item may be looked at as its job's policy says."""
MOST_TRIES = 100
"""To change items that others change at the same time."""


class ChecksItems(Protocol):
    """What is needed of the class of a spider: see JobSpider."""

    def check_item(self, found: Found) -> Found: ...


async def items_named(ledger: Ledger, job: str, names: Sequence[str]) -> list[Item]:
    """Items by id or key. Raises UnknownJob that names those there are not."""
    items: dict[str, Item] = {}
    for first in range(0, len(names), CHUNK):  # MongoDB takes no question of more than 16 MB
        among = {"$in": list(names[first : first + CHUNK])}
        named = {"job": job, "$or": [{"_id": among}, {"key": among}]}
        items |= {item.id: item for item in map(read_item, await ledger.patiently(partial(_rows, ledger, named)))}
    known = {*items} | {item.key for item in items.values()}
    if missing := [name for name in names if name not in known]:
        raise UnknownJob(f"{job} has no item {', '.join(map(repr, missing[:10]))}: give its id or its key.")
    return [*items.values()]


async def _rows(ledger: Ledger, query: Document) -> list[Document]:
    return await ledger.items.find(query).to_list()


async def remove(ledger: Ledger, job: Job, names: Sequence[str]) -> int:
    """Takes items out of the job, by id or key: how many. Their records stay. Raises UnknownJob."""
    items = await items_named(ledger, job.id, names)
    number = await ledger.apply([(item.id, Removed()) for item in items])
    await ledger.counting.count(job.id)
    return number


async def change(
    ledger: Ledger,
    job: Job,
    names: Sequence[str],
    inputs: Mapping[str, Any],
    often: float | None = None,
    *,
    foreign: bool = False,
) -> int:
    """Changes items by id or key: how many. One that was removed is there again.

    `inputs` are set in what the item already has; an empty text takes a value away. `foreign`: as in a Submission.
    What others change at the same time stays, but for the values that both set. Raises UnknownJob, JobConflict for a
    cancelled job, and UsageError for what cannot be an item's input, or the pace of a job that does not stand.
    """
    check_can_change(job, often)
    spider = cast(ChecksItems, load_spider(job.spider))
    items = await items_named(ledger, job.id, names)
    number = 0
    for _ in range(MOST_TRIES):
        events = await asyncio.to_thread(_changes_of, spider, items, inputs, often, foreign)
        changed = await ledger.apply(events)
        number += changed
        if changed == len(events) or not inputs:
            break
        check_can_change(await ledger.job(job.id) or job, often)
        now = await items_named(ledger, job.id, [item.id for item in items])
        again = await asyncio.to_thread(_changes_of, spider, now, inputs, often, foreign)
        items = [item for item, (_, change) in zip(now, again, strict=True) if change.input != item.input]
        if not items:  # those that did not change had been so already
            break
    else:
        raise JobConflict(f"Others change the same items of {job.id} all the time. Try again.")
    await ledger.note_added([job.id])
    await ledger.counting.count(job.id)
    return number


def _changes_of(
    spider: ChecksItems, items: Iterable[Item], inputs: Mapping[str, Any], often: float | None, foreign: bool
) -> list[tuple[str, Changed]]:
    """Those of several items, by id. What is given for one may cost much to check."""
    return [(item.id, _change_of(spider, item, inputs, often, foreign)) for item in items]


def _change_of(
    spider: ChecksItems, item: Item, inputs: Mapping[str, Any], often: float | None, foreign: bool
) -> Changed:
    """That of an item as it is now: what another sets meanwhile is not lost, and is checked together with this."""
    if not inputs:
        return Changed(None, often)
    changed = {name: value for name, value in {**item.input, **inputs}.items() if value != "" or name not in inputs}
    if foreign:  # with another address, headers that it has already would go there
        refuse_variables(changed)
    found = _checked(spider, item, changed)
    return Changed(found.input, often, found.recheck, seen=item.input)


def check_can_change(job: Job, often: float | None) -> None:
    """Raises JobConflict and UsageError."""
    if job.state is JobState.CANCELLED:
        raise JobConflict(f"{job.id} is cancelled: its items are not asked for any more. Submit them anew.")
    if often is not None and not job.standing:
        raise UsageError(f"--often: {job.id} is no standing job, whose items are looked at again.")


def _checked(spider: ChecksItems, item: Item, changed: dict[str, Any]) -> Found:
    try:
        found = spider.check_item(Found(item.kind, item.key, changed, item.depth, item.priority, item.line))
    except InvalidRecordError as error:
        raise UsageError(f"{item.key}: {error}.") from None
    if found.key != item.key:
        raise UsageError(f"{item.key}: with this input it would be the item {found.key!r}. Add that, and remove this.")
    return found
