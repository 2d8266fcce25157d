"""Item pipeline: rules across the fields of a record, and the counts that monitors judge by."""

from collections import Counter, defaultdict
from functools import lru_cache
from typing import NamedTuple, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider

from harvester.exceptions import StorageError
from harvester.frontier.receipts import part_of, settle
from harvester.items import Batch, Record, Reject
from harvester.items.bluesky import Post, Thread
from harvester.pipelines.base import BatchPipeline
from harvester.pipelines.rejects import Rejects, rejects_of
from harvester.pipelines.segments import REASON

MOST_TEXT_BYTES = 30_000
"""Ten times what Bluesky lets a post have."""
WEB = ("https://", "http://")
"""What a web address starts with."""


class ValidatePipeline(BatchPipeline):
    """Moves records that break a rule to the rejects; of records with the same key in a batch the last one stays."""

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
            if reason := problem(record):
                rejects.append(Reject(record.KIND, reason, record.key, record.raw, record.provenance.url))
                continue
            identity = part_of(record)
            if identity in kept:
                counts[f"records/repeated/{record.KIND}"] += 1
            kept[identity] = record
        by_type: dict[type[Record], list[Record]] = defaultdict(list)
        for record in kept.values():
            by_type[type(record)].append(record)
        for type_, records in by_type.items():
            for name, stat in _fields(type_).covered:
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


def problem(record: Record) -> str | None:
    """Which rule across types and fields the record breaks; None when it breaks none. Absurd dates are none."""
    fields = _fields(type(record))
    for name in fields.texts:
        text = getattr(record, name)
        if text and len(text) > MOST_TEXT_BYTES // 4 and _size(text) > MOST_TEXT_BYTES:
            return f"{name} is longer than {MOST_TEXT_BYTES} bytes"
    for name in fields.counts:
        count = getattr(record, name)
        if count is not None and count < 0:
            return f"{name} is negative"
    for name in fields.subjects:
        if not getattr(record, name).startswith(("did:", "at://did:")):
            return f"{name} is no account and no at:// address"
    for name in fields.urls:
        url = getattr(record, name)
        if url and not url.startswith(WEB):
            return f"{name} is no web address"
    if isinstance(record, Post):
        return _problem_of_post(record)
    if isinstance(record, Thread) and record.post_count < 1:
        return "a thread without posts"
    return None


def _problem_of_post(post: Post) -> str | None:
    if (post.root_uri is None) != (post.parent_uri is None):
        return "a reply names only one of root_uri and parent_uri"
    for facet in post.facets:
        if not 0 <= facet.start < facet.end <= len(post.text):
            return "a facet lies outside the text"
    for url in post.media_urls:
        if not url.startswith(WEB):
            return "a media url is no web address"
    return None


class _Fields(NamedTuple):
    """The fields of a record type that a rule applies to, told by their names."""

    texts: tuple[str, ...]
    counts: tuple[str, ...]
    subjects: tuple[str, ...]
    urls: tuple[str, ...]
    covered: tuple[tuple[str, str], ...]
    """Field, and the stat of its coverage."""


@lru_cache(maxsize=64)
def _fields(kind: type[Record]) -> _Fields:
    names = kind.__struct_fields__
    return _Fields(
        texts=tuple(kind.CLEANED),
        counts=tuple(name for name in names if name.endswith("_count")),
        subjects=tuple(name for name in names if name.startswith("subject_")),
        urls=tuple(name for name in names if name.endswith("_url")),
        covered=tuple((name, f"coverage/{kind.KIND}/{name}") for name in kind.COVERED),
    )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
