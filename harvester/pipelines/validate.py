"""Item pipeline: rules across the fields of a record, and the counts that monitors judge by."""

import logging
import re
from collections import Counter, defaultdict
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
WEB = ("https://", "http://")
"""What a web address starts with."""

_varying = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S*\d\S*|[^\w\s]""")


class ValidatePipeline(SegmentPipeline):
    """Moves records that break a rule to the rejects; of records with the same key in a batch the last one stays.

    Rejects, those of the parser too, are written to disk: kind, key, reason, url, rejected_at, and `raw` as JSON or,
    when it is none, as text. The log names each kind and reason once.
    """

    _named: frozenset[str] = frozenset()
    """Stats of the kinds and reasons that the log has named."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert crawler.spider
        return cls(crawler, load_config().data_dir / "rejects" / crawler.spider.name)

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
            identity = record.KIND, record.key
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
            self._keep(rejects, counts)
        for stat, count in counts.items():
            self.stats.inc_value(f"harvester/{stat}", count)
        return batch._replace(records=list(kept.values()), rejects=())

    def _keep(self, rejects: list[Reject], counts: Counter[str]) -> None:
        lines: dict[str, list[bytes]] = defaultdict(list)
        for reject in rejects:
            lines[reject.kind].append(rejected_line(reject))
            stat = f"records/rejected/{reject.kind}"
            stat_of_reason = f"{stat}/{slug(reject)}"
            counts[stat] += 1
            counts[stat_of_reason] += 1
            if stat_of_reason not in self._named:
                self._named |= {stat_of_reason}
                logger.warning(
                    "Rejected a %s: %s (%s). Its like go to %s", reject.kind, reject.reason, reject.key, self._folder
                )
        for kind, of_kind in lines.items():
            self.write(kind, of_kind)


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


def slug(reject: Reject) -> str:
    """The reason as part of a stat's name: what varies from record to record left out."""
    words = _varying.sub(" ", reject.reason.removeprefix(f"{reject.kind}: ")).lower().split()
    return "_".join(words)[:60] or "unknown"


def rejected_line(reject: Reject) -> bytes:
    """One line of JSON, without newline."""
    try:
        msgspec.json.decode(reject.raw)
        raw = msgspec.json.format(reject.raw, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raw = _encode(reject.raw.decode("utf-8", "replace"))
    told = {
        "kind": reject.kind,
        "key": _writable(reject.key),
        "reason": _writable(reject.reason),
        "url": reject.url,
        "rejected_at": datetime.now(UTC),
        "raw": msgspec.Raw(raw),
    }
    return _encode(told)


def _writable(text: str) -> str:
    """Without surrogates, which no UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode()
