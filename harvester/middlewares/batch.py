"""Spider middleware: sends the records of a page through the pipelines together."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import InvalidRecordError
from harvester.internal_meta import ITEMS
from harvester.items import Batch, Found, ItemResult, Looked, Record, Reject, Stage
from harvester.meta import JOB

MAX_RECORDS = 1000
"""Maximum number of records in a batch, for pages that yield lists; other work may run between two batches."""

Noted = Found | Stage | ItemResult | Looked
"""Output of a callback about job items."""


class BatchMiddleware:
    """Collects the records that a callback yields into a Batch; requests and other items pass.

    A callback may yield a list of records, since every output costs time in each layer of Scrapy. Raises
    InvalidRecordError for output about a job item that the page was not fetched for.
    """

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in batched(result, response):
            yield output


async def batched(outputs: AsyncIterator[Any], page: Response | Request) -> AsyncIterator[Any]:
    """Batches the outputs of an errback, too, which no spider middleware sees."""
    records: list[Record] = []
    rejects: list[Reject] = []
    noted: list[Noted] = []
    async for output in outputs:
        if isinstance(output, list) and all(issubclass(kind, Record) for kind in set(map(type, output))):
            records += output  # a check for each record would cost more than the rest
            if len(records) >= MAX_RECORDS:
                yield Batch(records)
                records = []
            continue
        for each in output if isinstance(output, list) else (output,):
            if isinstance(each, Record):
                records.append(each)
            elif isinstance(each, Reject):
                rejects.append(each)
            elif isinstance(each, (Found, Stage, ItemResult, Looked)):
                noted.append(each)
            else:
                yield each
    batch = Batch(records, tuple(rejects))
    if noted:
        yield _with_items(batch, noted, page)
    elif records or rejects:
        yield batch


def _with_items(batch: Batch, noted: Sequence[Noted], page: Response | Request) -> Batch:
    items: dict[str, int] = dict(page.meta.get(ITEMS, ()))
    if not items:
        raise InvalidRecordError("The page was fetched for no item of a job: it can say nothing of any, and find none")
    found = tuple(each for each in noted if isinstance(each, Found))
    stages = tuple(each for each in noted if isinstance(each, Stage))
    said = tuple(each for each in noted if isinstance(each, ItemResult))
    looked = tuple(each for each in noted if isinstance(each, Looked))
    more: tuple[Stage | ItemResult | Looked, ...] = (*stages, *said, *looked)
    for item in (each.item_id for each in more):
        if item not in items:
            raise InvalidRecordError(f"The page was not fetched for the item {item!r}, of which it says more")
    job = str(page.meta.get(JOB, ""))
    return batch._replace(job=job, items=tuple(items.items()), found=found, stages=stages, said=said, looked=looked)
