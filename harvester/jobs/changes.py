"""The changes that users make to a job's items while workers run: removal, another input, more frequent visits.

Workers see a change within a second, when they next read the due items. An attempt that is under way ends first.
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
"""Minimum and maximum of the factor on an item's visit frequency."""
MOST_TRIES = 100
"""Maximum number of tries to change items that others change at the same time."""


class ChecksItems(Protocol):
    """The part of a spider's class that a change needs: see JobSpider."""

    def check_item(self, found: Found) -> Found: ...


async def items_named(ledger: Ledger, job: str, names: Sequence[str]) -> list[Item]:
    """Returns items by id or key. Raises UnknownJob that lists the missing ones."""
    items: dict[str, Item] = {}
    for first in range(0, len(names), CHUNK):  # MongoDB refuses queries of more than 16 MB
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
    """Removes items from the job, by id or key, and returns their number. Their records stay. Raises UnknownJob."""
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
    """Changes items by id or key, and returns their number. A removed item comes back.

    `inputs` are merged into the item's input; an empty text removes a value. `foreign`: as in a Submission. Changes
    that others make at the same time are kept, except for values that both set. Raises UnknownJob, JobConflict for
    a cancelled job, and UsageError for an invalid input, or for `often` in a job that is not recurring.
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
        if not items:  # the others already have this input
            break
    else:
        raise JobConflict(f"Others change the same items of {job.id} all the time. Try again.")
    await ledger.note_added([job.id])
    await ledger.counting.count(job.id)
    return number


def _changes_of(
    spider: ChecksItems, items: Iterable[Item], inputs: Mapping[str, Any], often: float | None, foreign: bool
) -> list[tuple[str, Changed]]:
    """Returns the changes of several items, with their ids. Runs in a thread, since checking an input may be slow."""
    return [(item.id, _change_of(spider, item, inputs, often, foreign)) for item in items]


def _change_of(
    spider: ChecksItems, item: Item, inputs: Mapping[str, Any], often: float | None, foreign: bool
) -> Changed:
    """Returns the change of an item from its current input. So a value that another user sets meanwhile is not lost,
    and is checked together with the new ones."""
    if not inputs:
        return Changed(None, often)
    changed = {name: value for name, value in {**item.input, **inputs}.items() if value != "" or name not in inputs}
    if foreign:  # with another address, the headers that the item already has would be sent there
        refuse_variables(changed)
    found = _checked(spider, item, changed)
    return Changed(found.input, often, found.recheck, seen=item.input)


def check_can_change(job: Job, often: float | None) -> None:
    """Raises JobConflict for a cancelled job, and UsageError for `often` in a job that is not recurring."""
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
