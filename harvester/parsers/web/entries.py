"""Makes records of the entries of feeds, and separates entries that share an id. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec

from harvester.exceptions import InvalidRecordError
from harvester.items import Provenance, Reject
from harvester.items.feed import Enclosure, FeedEntry
from harvester.parsers.web.dates import read_date
from harvester.parsers.web.values import joined, line

MOST_KEY = 1000
"""Maximum number of characters of an entry's id. A longer id is replaced by its digest."""

Given = dict[str, Any]
"""Fields of an entry, as its feed states them."""

_TOLD_APART_BY = ("page_url", "title", "published_at")
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
_is_odd = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff]").search


def with_dates(given: Given, seen_at: datetime, **dates: Any) -> Given:
    """Adds dates, each given as text of the feed. A date that cannot be read is withheld, with the reason."""
    withheld: dict[str, str] = {}
    for name, text in dates.items():
        date = read_date(text, seen_at) if isinstance(text, str) else read_date("")
        given[name] = date.at
        if date.problem:
            withheld[name] = date.problem
    return {**given, "withheld": withheld} if withheld else given


def with_ids(
    entries: Iterable[tuple[Any, Given]], known: Collection[str], *, are_trusted: bool
) -> tuple[list[Given], list[str]]:
    """Gives each entry an id: its own, else its address, else a digest of the content.

    Entries with the same id that differ in address, title or date are several: a digest of the three is appended to
    their ids. `known` holds digests of ids that were ambiguous before. An entry with such an id gets the longer id even
    if it is alone, so that it keeps its id when others come. `are_trusted` is for Atom, where entries with the same id
    are versions of one entry, if each states when it was changed. Returns the entries, only the latest of several
    versions, and digests of all ambiguous ids.
    """
    groups: defaultdict[str, list[Given]] = defaultdict(list)
    in_order: list[tuple[str, Given]] = []
    for own, given in entries:
        key = _id(own, given)
        groups[key].append(given)
        in_order.append((key, given))
    repeated = {
        key
        for key, group in groups.items()
        if _digest(key)[:16] in known
        or (not (are_trusted and _are_versions(group)) and len(set(map(_telling, group))) > 1)
    }
    latest: dict[str, Given] = {}
    for key, given in in_order:
        full = f"{key[: MOST_KEY - 30]} {_digest(_telling(given))[:16]}" if key in repeated else key
        if full not in latest or _changed_at(given) > _changed_at(latest[full]):
            latest[full] = given
    return [{"id": key, **given} for key, given in latest.items()], sorted(_digest(key)[:16] for key in repeated)


def record(given: Given, provenance: Provenance) -> FeedEntry | Reject:
    """Returns the record, or a reject with the reason."""
    raw = msgspec.json.encode(given)
    try:
        return FeedEntry(**given, raw=raw, provenance=provenance)
    except InvalidRecordError as error:
        return Reject(FeedEntry.KIND, str(error), str(given.get("id", "")), raw, provenance.url)


def enclosures(base: str, given: Iterable[Any], address: str, kind: str, size: str) -> Iterator[Enclosure]:
    """Yields the files that belong to an entry. `address`, `kind` and `size` are the names of their values."""
    for each in given:
        if isinstance(each, Mapping) and (found := joined(base, each.get(address))):
            length = str(each.get(size) or "")
            number = int(length) if length.isascii() and length.isdecimal() and len(length) < 18 else None
            yield Enclosure(found, line(each.get(kind)), number)


def _id(own: Any, given: Given) -> str:
    own = own if isinstance(own, (str, int, float)) and not isinstance(own, bool) else ""
    text = " ".join(str(own).split()) or given.get("page_url") or ""
    if text and len(text) <= MOST_KEY and not _is_odd(text.replace(" ", "_")):
        return text
    return _digest(text or repr(sorted((name, value) for name, value in given.items() if name != "withheld")))


def _are_versions(group: list[Given]) -> bool:
    dates = {given.get("updated_at") for given in group}
    return len(dates) == len(group) and None not in dates


def _telling(given: Given) -> str:
    return repr([str(given.get(name) or "") for name in _TOLD_APART_BY])


def _changed_at(given: Given) -> datetime:
    return given.get("updated_at") or given.get("published_at") or _LONG_AGO


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
