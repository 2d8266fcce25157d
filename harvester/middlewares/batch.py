"""Spider middleware: the records of a page travel through the pipelines together."""

from collections.abc import AsyncIterator
from typing import Any

from scrapy.http import Response

from harvester.frontier.changes import CHANGES
from harvester.items import Batch, Record, Reject


class BatchMiddleware:
    """Collects what a callback yields into Batches; requests and other items pass.

    A callback may yield a list of records: each layer of Scrapy between it and here costs time for every output.

    A change of the ledger ends a batch: it is made when the records yielded before it are confirmed.
    """

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        records: list[Record] = []
        rejects: list[Reject] = []
        changes: list[Any] = []
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
            else:
                yield output
        if records or rejects or changes:
            yield Batch(records, changes, tuple(rejects))
