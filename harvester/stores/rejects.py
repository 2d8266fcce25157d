"""Saves rejected records with the reason.

A reject is written to disk, counted in the stats, and logged once for each reason. All components of a run share the
same object.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.crawler import Crawler

from harvester.components import get_component
from harvester.config import load_config
from harvester.formatting import pattern_of, shown
from harvester.items import ITEM, Batch, Record, Reject
from harvester.items.raw import members
from harvester.items.receipts import part_of
from harvester.masking import mask
from harvester.stores.segments import Segments

logger = logging.getLogger(__name__)
_encode = msgspec.json.encode

MOST_REASONS = 200
"""Maximum number of reasons that are counted separately. Some texts differ each time."""

MOST_SHOWN = 300
"""Maximum number of characters of a reason or key in the log. The line on disk has the full text."""


def rejects_of(crawler: Crawler) -> "Rejects":
    """Returns the rejects of the run, in data/rejects/<spider>."""

    def make() -> Rejects:
        assert crawler.spider
        rejects = Rejects(crawler, load_config().data_dir / "rejects" / crawler.spider.name)
        crawler.signals.connect(rejects.close, signals.spider_closed)  # without a pipeline nothing else would close it
        return rejects

    return get_component(crawler, Rejects, make)


class Rejects(Segments):
    """Writes a line for each reject: kind, key, reason, url, rejected_at, and `raw`.

    `raw` has the form of staged lines, with JSON without white space.
    """

    _named: frozenset[str] = frozenset()
    """Stats of the kinds and reasons that were logged."""

    def keep(self, rejects: Sequence[Reject], event: str = "rejected") -> None:
        """Writes rejects. When it returns, the operating system has them. `event` is their name in the stats.

        Raises StorageError, and ends the run. From then on it raises RunEnding.
        """
        lines: dict[str, list[bytes]] = defaultdict(list)
        for reject in rejects:
            lines[reject.kind].append(rejected_line(reject))
        for kind, of_kind in lines.items():
            self.write(kind, of_kind)
        counts: Counter[str] = Counter()
        for reject in rejects:
            stat = f"harvester/records/{event}/{reject.kind}"
            stat_of_reason = f"{stat}/{slug(reject)}"
            if stat_of_reason not in self._named:
                if len(self._named) >= MOST_REASONS:
                    stat_of_reason = f"{stat}/other"
                self._name(stat_of_reason, event, reject)
            counts.update((stat, stat_of_reason))
        for stat, count in counts.items():
            self.crawler.stats.inc_value(stat, count)

    def keep_dropped(self, item: Any, parts: Iterable[Any], why: str, url: str) -> int:
        """Writes the parts of an item that a pipeline of the project dropped. Returns their number."""
        open_parts = set(parts)
        records = item.records if isinstance(item, Batch) else [item] if isinstance(item, Record) else []
        rejects = [part._replace(reason=why) for part in open_parts if isinstance(part, Reject)]
        for record in records:
            if part_of(record) in open_parts:
                raw = b"" if record.opted_out else record.raw
                rejects.append(Reject(record.KIND, why, str(record.key), raw, record.provenance.url))
        if not records and not rejects:
            rejects.append(Reject(ITEM, why, "", raw_of(item), url))
        self.keep(rejects, "dropped")
        return len(rejects)

    def _name(self, stat: str, event: str, reject: Reject) -> None:
        if stat not in self._named:
            self._named |= {stat}
            why, of = (shown(mask(text), MOST_SHOWN) for text in (reject.reason, reject.key or reject.url))
            what = f"{event} {'an' if reject.kind.startswith(tuple('aeiou')) else 'a'} {reject.kind}".capitalize()
            logger.warning("%s: %s (%s). Its like go to %s", what, why, of, self.folder)


def slug(reject: Reject) -> str:
    """Returns the reason as part of a stat's name, without the words that vary from record to record."""
    words = pattern_of(_writable(reject.reason).removeprefix(f"{reject.kind}: "))
    return words.replace(" ", "_")[:60] or "unknown"


def rejected_line(reject: Reject) -> bytes:
    """Returns the reject as a line of JSON, without newline."""
    raw = reject.raw if isinstance(reject.raw, bytes) else repr(reject.raw).encode()
    with suppress(ValueError, RecursionError):  # raw is not JSON
        raw = msgspec.json.format(raw, indent=-1)
    told = {
        "kind": reject.kind,
        "key": _writable(reject.key),
        "reason": _writable(reject.reason),
        "url": _writable(reject.url),
        "rejected_at": datetime.now(UTC),
    }
    return b"%b,%b}" % (_encode(told)[:-1], members(raw))


def raw_of(item: Any) -> bytes:
    """Returns an item of any type as JSON, or as text if it cannot be encoded."""
    try:
        return _encode(ItemAdapter(item).asdict(), enc_hook=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(item).encode("utf-8", "replace")


def _writable(text: str) -> str:
    """Replaces surrogates, which UTF-8 cannot hold."""
    return str(text).encode("utf-8", "replace").decode()
