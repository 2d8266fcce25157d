"""Item pipeline: checks rules across the fields of a record, and counts for the monitors."""

from collections import Counter, defaultdict
from functools import cache
from typing import Self

from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider

from harvester.exceptions import StorageError
from harvester.items import Batch, Record, Reject
from harvester.items.receipts import part_of, settle
from harvester.pipelines.base import BatchPipeline
from harvester.stores.rejects import Rejects, rejects_of
from harvester.stores.segments import REASON


class ValidatePipeline(BatchPipeline):
    """Moves records that break a rule to the rejects; keeps one of several records with the same key in a batch."""

    def __init__(self, crawler: Crawler, rejects: Rejects) -> None:
        super().__init__(crawler)
        self._rejects = rejects

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, rejects_of(crawler))

    async def open_spider(self) -> None:
        try:
            self._rejects.open()
        except StorageError:
            raise CloseSpider(REASON) from None

    async def process_batch(self, batch: Batch) -> Batch:
        parsed = Counter([record.KIND for record in batch.records])
        counts = Counter({f"records/parsed/{kind}": count for kind, count in parsed.items()})
        counts.update(f"records/parsed/{reject.kind}" for reject in batch.rejects)
        rejects = list(batch.rejects)
        kept: dict[tuple[str, str], Record] = {}
        for record in batch.records:
            if reason := record.problem():
                rejects.append(Reject(record.KIND, reason, record.key, record.raw, record.provenance.url))
                continue
            identity = part_of(record)
            if identity in kept:
                counts[f"records/repeated/{record.KIND}"] += 1
                if not record.replaces(kept[identity]):
                    continue
            kept[identity] = record
        by_type: dict[type[Record], list[Record]] = defaultdict(list)
        for record in kept.values():
            by_type[type(record)].append(record)
        for type_, records in by_type.items():
            for name, stat in _covered(type_):
                values = [getattr(record, name) for record in records]
                if count := len(values) - values.count(None) - values.count(""):
                    counts[stat] += count
        if rejects:
            self._rejects.keep(rejects)
            of_records = {(reject.kind, reject.key) for reject in rejects}
            settle((of_records - kept.keys()).union(batch.rejects), rejected=len(rejects))
        for stat, count in counts.items():
            self.stats.inc_value(f"harvester/{stat}", count)
        return batch._replace(records=list(kept.values()), rejects=())


@cache
def _covered(kind: type[Record]) -> tuple[tuple[str, str], ...]:
    """Returns the fields with watched coverage, and their stats."""
    return tuple((name, f"coverage/{kind.KIND}/{name}") for name in kind.COVERED)
