"""Spider middleware: the records of a page travel through the pipelines together."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from scrapy.http import Response

from harvester.exceptions import InvalidRecordError
from harvester.frontier.changes import CHANGES
from harvester.items import Batch, Found, Record, Reject, Said, Stage
from harvester.meta import ITEMS, JOB


class BatchMiddleware:
    """Collects what a callback yields into Batches; requests and other items pass.

    A callback may yield a list of records: each layer of Scrapy between it and here costs time for every output.

    A change of the ledger ends a batch: it is made when the records yielded before it are confirmed. What is said of
    job items travels in the last one. Raises InvalidRecordError when the page was fetched for no such item.
    """

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        records: list[Record] = []
        rejects: list[Reject] = []
        changes: list[Any] = []
        noted: list[Found | Stage | Said] = []
        async for output in result:
            if isinstance(output, (list, Record, Reject)):
                if changes:
                    yield Batch(records, changes, tuple(rejects))
                    records, rejects, changes = [], [], []
                if isinstance(output, list):
                    records += output
                elif isinstance(output, Record):
                    records.append(output)
                else:
                    rejects.append(output)
            elif isinstance(output, CHANGES):
                changes.append(output)
            elif isinstance(output, (Found, Stage, Said)):
                noted.append(output)
            else:
                yield output
        batch = Batch(records, changes, tuple(rejects))
        if noted:
            batch = _with_items(batch, noted, response)
        if records or rejects or changes or noted:
            yield batch


def _with_items(batch: Batch, noted: Sequence[Found | Stage | Said], response: Response) -> Batch:
    items: dict[str, int] = dict(response.meta.get(ITEMS, ()))
    if not items:
        raise InvalidRecordError("The page was fetched for no item of a job: it can say nothing of any, and find none")
    found = tuple(each for each in noted if isinstance(each, Found))
    stages = tuple(each for each in noted if isinstance(each, Stage))
    said = tuple(each for each in noted if isinstance(each, Said))
    for item in (*(stage.item_id for stage in stages), *(each.item_id for each in said)):
        if item not in items:
            raise InvalidRecordError(f"The page was not fetched for the item {item!r}, of which it says more")
    job = str(response.meta.get(JOB, ""))
    return batch._replace(job=job, items=tuple(items.items()), found=found, stages=stages, said=said)
