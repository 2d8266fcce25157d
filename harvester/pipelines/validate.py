"""Item pipeline: rules across the fields of a record, and the counts that monitors judge by."""

import logging
import re
from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, Self

import msgspec
from scrapy.crawler import Crawler

from harvester.config import load_config
from harvester.items import Batch, Post, Record, Reject, Thread
from harvester.pipelines.staging import SegmentPipeline

logger = logging.getLogger(__name__)
_encode = msgspec.json.encode

MOST_TEXT_BYTES = 30_000
"""Ten times what Bluesky lets a post have."""

_varying = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S*\d\S*|[^\w\s]""")


class ValidatePipeline(SegmentPipeline):
    """Moves records that break a rule to the rejects; of records with the same key in a batch the last one stays.

    Rejects, those of the parser too, are written to disk: kind, key, reason, url, rejected_at, and `raw` as JSON or,
    when it is none, as text. The log names each kind and reason once.
    """

    _logged: frozenset[str] = frozenset()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert crawler.spider
        return cls(crawler, load_config().data_dir / "rejects" / crawler.spider.name)

    async def process_batch(self, batch: Batch) -> Batch:
        counts: Counter[str] = Counter()
        rejects = list(batch.rejects)
        for reject in rejects:
            counts[f"records/parsed/{reject.kind}"] += 1
        kept: dict[tuple[str, str], Record] = {}
        for record in batch.records:
            counts[f"records/parsed/{record.KIND}"] += 1
            if reason := problem(record):
                rejects.append(Reject(record.KIND, reason, record.key, record.raw, record.provenance.url))
            else:
                kept[record.KIND, record.key] = record
        for record in kept.values():
            for name, stat in _rules(type(record)).covered:
                if getattr(record, name) not in _NOTHING:
                    counts[stat] += 1
        for reject in rejects:
            self._keep(reject, counts)
        for stat, count in counts.items():
            self.stats.inc_value(f"harvester/{stat}", count)
        return batch._replace(records=list(kept.values()), rejects=())

    def _keep(self, reject: Reject, counts: Counter[str]) -> None:
        stat = f"records/rejected/{reject.kind}"
        stat_of_reason = f"{stat}/{slug(reject.reason)}"
        counts[stat] += 1
        counts[stat_of_reason] += 1
        size = self.write(reject.kind, [rejected_line(reject)])
        if stat_of_reason not in self._logged:
            self._logged |= {stat_of_reason}
            logger.warning("Rejected a %s: %s (%s). All rejects: %s", reject.kind, reject.reason, reject.key, self._folder)


class _Rules(NamedTuple):
    """What the names of a record's fields say about their values."""

    counts: tuple[str, ...]
    dids: tuple[str, ...]
    urls: tuple[str, ...]
    covered: tuple[tuple[str, str], ...]
    """Field and its coverage stat."""
