"""Where a look at a list ends: when it has come to what an earlier one saw, and not before. Pure functions.

A list shows its newest entries first, page by page. What the last whole look saw at its top is the mark: the next look
ends where entries of the mark come in a row. A look that ends anywhere else leaves the mark where it was, so that what
lies between is read by the next one.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

MARKED = 200
"""Entries by which the next look knows where a list was read."""
MOST_STUCK = 10
"""Pages in a row with nothing that the look has not seen, after which a list leads nowhere; and how often a look goes
back."""
MOST_CURSORS = 20
"""The last cursors of a look, to none of which a list should lead again."""

MAX_PINNED = 3
"""Entries at the top of a list that may be pinned there without a sign."""

TICK = timedelta(milliseconds=1)
"""With which MongoDB keeps times."""

Pages = Literal["cursor", "page", "offset"]
"""What leads from a page to the next: something that is handed out with it, its number, or that of its last entry."""
Position = str | int | None
"""What a page is asked for with: a cursor, an address, the number of a page or of an entry. None: it is the first."""


class ListEntry(NamedTuple):
    """What is told of a line of a list, to know it again."""

    key: str
    version: str = ""
    """Another one after each change, where the list says that: a time, a number, a digest."""
    at: datetime | None = None
    """When it came to its place, where that is the list's order: of a repost, when it was reposted."""
    pinned: bool = False
    """Whether it stands where it does whatever its time."""


class ListedPage(NamedTuple):
    """A page of a list, as its parser reads it."""

    entries: Sequence[ListEntry]
    next: Position = None
    """What leads to the next page; None: nothing does."""
    total: int | None = None
    """How many entries the whole list has, where it says that."""


class Mark(Struct, frozen=True, omit_defaults=True):
    """What the last whole look saw at the top of a list."""

    seen: dict[str, str] = {}
    """Digest of the key -> that of the version; in the order of the list."""
    newest: datetime | None = None
    """The latest time of an entry that is not pinned."""


class ListRule(NamedTuple):
    """What is known of a list."""

    pages: Pages = "cursor"
    """Where it is a number, entries move from page to page while the list is read, and an empty page is the end."""
    first: int = 0
    """That of the first page, then."""
    in_a_row: int = 3
    """So many entries of the mark, one below the other down to the end of a page, end a look: more than are ever pinned
    without a sign, or come to the top again. 0: nothing does, and the list is read to its end."""
    overlap: timedelta = timedelta(0)
    """Entries that are younger than the newest of the mark less this end no look: others may have come among them."""


class VisitProgress(Struct, frozen=True, omit_defaults=True):
    """How far a look has come; it goes along with the request for its next page."""

    mark: Mark = Mark()
    """What the last whole look has left."""
    top: Mark = Mark()
    """What this one has seen."""
    in_a_row: int = 0
    """Entries of the mark at the end of the page before."""
    before: tuple[str, ...] = ()
    """Digests of the keys of the page before."""
    total: int | None = None
    """That the page before has told."""
    cursors: tuple[str, ...] = ()
    """Digests of the last ones it asked with."""
    stuck: int = 0
    """Pages in a row without anything that this look had not seen."""
    back: int = 0
    """How often it went back a page."""
    anew: bool = False
    """Whether it was begun anew, since a cursor was refused."""
    pages: int = 0
    """That it has read."""
    found: int = 0
    """Entries on them that were new, or had changed."""


class Ending(StrEnum):
    """Of a look."""

    WHOLE = "whole"
    """It has come to what was seen before, or to the end of the list: what is between has been read."""
    CUT_SHORT = "cut_short"
    """The list leads nowhere: what lies behind is not known."""


class NextStep(NamedTuple):
    """What follows from a page."""

    fresh: list[int]
    """Places of its entries that are new since the last whole look, or have changed."""
    look: VisitProgress
    next: Position = None
    """What the next page is asked for with, unless the look ends."""
    ending: Ending | None = None
    why: str = ""
    """What the list does that leads nowhere."""


def step(look: VisitProgress, page: ListedPage, asked_with: Position, rule: ListRule) -> NextStep:
    """What follows from a page that was asked for with this."""
    keys = tuple([digest(entry.key) for entry in page.entries])
    versions = [digest(entry.version) if entry.version else "" for entry in page.entries]
    fresh = [at for at, key in enumerate(keys) if key not in look.before and look.mark.seen.get(key) != versions[at]]
    is_new, repeats = bool({*keys}.difference(look.before, look.top.seen)), keys == look.before and look.stuck > 0
    look = replace(look, pages=look.pages + 1, found=look.found + len(fresh))
    if isinstance(asked_with, int) and asked_with > rule.first and _lost_some(look, page, keys, rule):
        back = asked_with - (following(rule.pages, 0, len(look.before)) or 1)
        return NextStep(fresh, replace(look, total=page.total, back=look.back + 1), next=max(rule.first, back))
    look = replace(
        look,
        top=_extended(look.top, page.entries, keys, versions),
        in_a_row=_in_a_row(look, page.entries, keys, versions, rule),
        before=keys or look.before,
        total=page.total,
        cursors=(*look.cursors, digest(str(asked_with)))[-MOST_CURSORS:],
        stuck=0 if is_new else look.stuck + 1,
    )
    if (rule.in_a_row and look.in_a_row >= rule.in_a_row) or _is_last(page, asked_with, rule, is_new, repeats):
        return NextStep(fresh, look, ending=Ending.WHOLE)
    if rule.pages == "cursor" and digest(str(page.next)) in look.cursors:
        return NextStep(fresh, look, ending=Ending.CUT_SHORT, why="leads to a page that was read already")
    if look.stuck >= MOST_STUCK:
        why = f"shows nothing new on {MOST_STUCK} pages in a row"
        return NextStep(fresh, look, ending=Ending.CUT_SHORT, why=why)
    return NextStep(fresh, look, next=page.next)


def following(pages: Pages, asked_with: int, entries: int) -> int | None:
    """The number with which the next page is asked for, after one of so many entries. None: no number leads there.

    The last entry of a page is asked for once more: it tells whether entries have moved. A page of one has none to
    spare.
    """
    if pages == "cursor":
        return None
    return asked_with + (1 if pages == "page" else max(1, entries - 1))


def mark_after(look: VisitProgress) -> Mark:
    """What a whole look leaves: what it saw, and below it what was known before."""
    below = {key: version for key, version in look.mark.seen.items() if key not in look.top.seen}
    newest = max(filter(None, (look.top.newest, look.mark.newest)), default=None)
    return Mark(dict(islice({**look.top.seen, **below}.items(), MARKED)), newest)


def may_have_missed(mark: Mark, entries: Sequence[ListEntry]) -> bool:
    """Tells whether entries came and went between two looks at a list of one page, which shows its last ones only.

    They may have if it shows nothing that the mark knows, but for what is pinned to its top.
    """
    shown = [entry for entry in entries if not entry.pinned]
    pinned = {digest(entry.key) for entry in entries if entry.pinned}
    if not shown or not mark.seen.keys() - pinned:
        return False
    return not any(digest(entry.key) in mark.seen for entry in shown[_on_top(shown) :])


def _on_top(entries: Sequence[ListEntry]) -> int:
    """How many of the first entries are older than the one below them, as those are that somebody has pinned."""
    times = [entry.at for entry in entries[: MAX_PINNED + 1]]
    for number in range(len(times) - 1, 0, -1):
        above, below = [time for time in times[:number] if time], times[number]
        if below and len(above) == number and max(above) < below and number < len(entries) - 1:
            return number if not _ascends(entries) else 0
    return 0


def _ascends(entries: Sequence[ListEntry]) -> bool:
    """Whether the list shows its oldest entries first: most times are later than the one before."""
    times = [entry.at for entry in entries if entry.at]
    later = sum(one < other for one, other in pairwise(times))
    return 2 * later > len(times) - 1


def begun_anew(look: VisitProgress) -> VisitProgress:
    """The same look from the first page, after a cursor was refused."""
    return VisitProgress(mark=look.mark, anew=True, pages=look.pages)


def digest(text: str) -> str:
    """Eleven characters that stand for a text of any length."""
    hashed = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return urlsafe_b64encode(hashed)[:11].decode()


def to_data(of: VisitProgress | Mark) -> dict[str, Any]:
    """As values that a request of the frontier and a document of MongoDB can hold."""
    data: dict[str, Any] = msgspec.to_builtins(of, builtin_types=(datetime,))
    return data


def look_of(data: Mapping[str, Any]) -> VisitProgress:
    """From `to_data`."""
    return msgspec.convert(data, VisitProgress)


def mark_of(data: Mapping[str, Any]) -> Mark:
    """From `to_data`."""
    return msgspec.convert(data, Mark)


def _in_a_row(
    look: VisitProgress, entries: Sequence[ListEntry], keys: Sequence[str], versions: Sequence[str], rule: ListRule
) -> int:
    number = look.in_a_row
    for entry, key, version in zip(entries, keys, versions, strict=True):
        if entry.pinned or key in look.before:
            continue
        known = look.mark.seen.get(key)
        if known is None:
            number = 0
        elif known == version and not _may_have_come_since(entry, look.mark, rule):
            number += 1  # else it has changed, or come to the top again: that it is known says nothing of its place
    return number


def _may_have_come_since(entry: ListEntry, mark: Mark, rule: ListRule) -> bool:
    return bool(entry.at and mark.newest and entry.at - mark.newest > TICK - rule.overlap)


def _is_last(page: ListedPage, asked_with: Position, rule: ListRule, is_new: bool, repeats: bool) -> bool:
    if page.next in (None, "") or (page.next == asked_with and not is_new):
        return True
    if rule.pages == "cursor":
        return False  # an empty page that leads to another one is not the end
    return not page.entries or repeats  # some servers show the last page for all numbers behind it


def _lost_some(look: VisitProgress, page: ListedPage, keys: Sequence[str], rule: ListRule) -> bool:
    """Whether entries may have moved to the page before, after that was read, since others are gone."""
    if not look.before or look.back >= MOST_STUCK:
        return False
    if rule.pages == "offset" and len(look.before) > 1:
        return not {*look.before}.intersection(keys)
    return page.total is not None and look.total is not None and page.total < look.total


def _extended(top: Mark, entries: Sequence[ListEntry], keys: Sequence[str], versions: Sequence[str]) -> Mark:
    below = {key: version for key, version in zip(keys, versions, strict=True) if key not in top.seen}
    times = [entry.at for entry in entries if entry.at and not entry.pinned]
    newest = max([*times, *([top.newest] if top.newest else [])], default=None)
    return Mark(dict(islice({**top.seen, **below}.items(), MARKED)), newest)
