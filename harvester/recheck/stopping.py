"""Decides where a visit of a list ends: at the entries that an earlier visit saw, and not before. Pure functions.

A list shows its newest entries first, page by page. The entries at the top of the last complete visit are the mark. The
next visit ends where entries of the mark come in a row. A visit that ends elsewhere leaves the mark unchanged, so the
next visit reads the entries in between.
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
"""Number of entries in a mark."""
MOST_STUCK = 10
"""Maximum number of pages in a row without a new entry; then the list leads nowhere. Also how often a visit goes back a
page, at most."""
MOST_CURSORS = 20
"""Number of a visit's last cursors. A list that returns to such a cursor leads nowhere."""

MAX_PINNED = 3
"""Entries at the top of a list that may be pinned without a sign."""

TICK = timedelta(milliseconds=1)
"""Resolution of the times that MongoDB stores."""

Pages = Literal["cursor", "page", "offset"]
"""The way to the next page: a cursor from the page, the page number, or the number of the page's last entry."""
Position = str | int | None
"""The position that a page is requested with: a cursor, an address, the number of a page or an entry. None: the first
page."""


class ListEntry(NamedTuple):
    """The facts that identify an entry of a list."""

    key: str
    version: str = ""
    """A text that changes with the entry, if the list has one: a time, a number, a digest."""
    at: datetime | None = None
    """The time that orders the list. For a repost, the time of the repost."""
    pinned: bool = False
    """True if the entry stands where it does whatever its time."""


class ListedPage(NamedTuple):
    """A page of a list, as its parser reads it."""

    entries: Sequence[ListEntry]
    next: Position = None
    """The position of the next page; None for the last page."""
    total: int | None = None
    """Number of entries in the whole list, if the page shows it."""


class Mark(Struct, frozen=True, omit_defaults=True):
    """The entries at the top of a list in its last complete visit."""

    seen: dict[str, str] = {}
    """Digest of the key -> digest of the version, in the order of the list."""
    newest: datetime | None = None
    """The latest time of an entry that is not pinned."""


class ListRule(NamedTuple):
    """The behaviour of a list."""

    pages: Pages = "cursor"
    """For "page" and "offset", entries move between pages while the list is read, and an empty page is the end."""
    first: int = 0
    """Number of the first page or entry, for "page" and "offset"."""
    in_a_row: int = 3
    """Number of entries of the mark, in a row down to the end of a page, that end a visit. It must exceed the entries
    that are pinned without a sign or come to the top again. 0 reads the list to its end."""
    overlap: timedelta = timedelta(0)
    """Time below the newest entry of the mark. Younger entries do not end a visit, because new ones may lie among
    them."""


class VisitProgress(Struct, frozen=True, omit_defaults=True):
    """The progress of a visit; it travels with the request for the next page."""

    mark: Mark = Mark()
    """The mark of the last complete visit."""
    top: Mark = Mark()
    """The entries that this visit has seen."""
    in_a_row: int = 0
    """Entries of the mark in a row at the end of the page before."""
    before: tuple[str, ...] = ()
    """Digests of the keys of the page before."""
    total: int | None = None
    """The `total` of the page before."""
    cursors: tuple[str, ...] = ()
    """Digests of the last positions that it requested."""
    stuck: int = 0
    """Pages in a row without an entry that is new to this visit."""
    back: int = 0
    """Number of times that it went back a page."""
    anew: bool = False
    """True if it was restarted, because a cursor was refused."""
    pages: int = 0
    """Pages that it has read."""
    found: int = 0
    """New or changed entries on those pages."""


class Ending(StrEnum):
    """The end of a visit."""

    WHOLE = "whole"
    """The visit reached known entries or the end of the list: all entries in between have been read."""
    CUT_SHORT = "cut_short"
    """The list leads nowhere: later entries are unknown."""


class NextStep(NamedTuple):
    """The result of a page."""

    fresh: list[int]
    """Indexes of the entries that are new or changed since the last complete visit."""
    look: VisitProgress
    next: Position = None
    """The position of the next page, unless the visit ends."""
    ending: Ending | None = None
    why: str = ""
    """The reason why the list leads nowhere."""


def step(look: VisitProgress, page: ListedPage, asked_with: Position, rule: ListRule) -> NextStep:
    """Returns the result of a page that was requested with `asked_with`."""
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
    """Returns the number of the next page, after a page with this number of entries. None for lists with cursors.

    By offset, the last entry of a page is requested again, because it shows whether entries have moved. A page with one
    entry has none to spare.
    """
    if pages == "cursor":
        return None
    return asked_with + (1 if pages == "page" else max(1, entries - 1))


def mark_after(look: VisitProgress) -> Mark:
    """Returns the mark after a complete visit: the entries that it saw, and below them the older known ones."""
    below = {key: version for key, version in look.mark.seen.items() if key not in look.top.seen}
    newest = max(filter(None, (look.top.newest, look.mark.newest)), default=None)
    return Mark(dict(islice({**look.top.seen, **below}.items(), MARKED)), newest)


def may_have_missed(mark: Mark, entries: Sequence[ListEntry]) -> bool:
    """Returns True if entries may have come and gone between two visits of a list with a single page of recent entries.

    They may have if the page shows nothing that the mark knows, apart from pinned entries.
    """
    shown = [entry for entry in entries if not entry.pinned]
    pinned = {digest(entry.key) for entry in entries if entry.pinned}
    if not shown or not mark.seen.keys() - pinned:
        return False
    return not any(digest(entry.key) in mark.seen for entry in shown[_on_top(shown) :])


def _on_top(entries: Sequence[ListEntry]) -> int:
    """Returns the number of first entries that are older than the entry below them, because somebody has pinned
    them."""
    times = [entry.at for entry in entries[: MAX_PINNED + 1]]
    for number in range(len(times) - 1, 0, -1):
        above, below = [time for time in times[:number] if time], times[number]
        if below and len(above) == number and max(above) < below and number < len(entries) - 1:
            return number if not _ascends(entries) else 0
    return 0


def _ascends(entries: Sequence[ListEntry]) -> bool:
    """Returns True if the list shows its oldest entries first: most times are later than the one before."""
    times = [entry.at for entry in entries if entry.at]
    later = sum(one < other for one, other in pairwise(times))
    return 2 * later > len(times) - 1


def begun_anew(look: VisitProgress) -> VisitProgress:
    """Returns the visit restarted from the first page, after a cursor was refused."""
    return VisitProgress(mark=look.mark, anew=True, pages=look.pages)


def digest(text: str) -> str:
    """Returns eleven characters that stand for a text of any length."""
    hashed = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return urlsafe_b64encode(hashed)[:11].decode()


def to_data(of: VisitProgress | Mark) -> dict[str, Any]:
    """Returns values that a request of the frontier and a document of MongoDB can hold."""
    data: dict[str, Any] = msgspec.to_builtins(of, builtin_types=(datetime,))
    return data


def look_of(data: Mapping[str, Any]) -> VisitProgress:
    """Reads the progress from the result of `to_data`."""
    return msgspec.convert(data, VisitProgress)


def mark_of(data: Mapping[str, Any]) -> Mark:
    """Reads the mark from the result of `to_data`."""
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
            number += 1  # a changed entry may have come to the top again, so its place proves nothing
    return number


def _may_have_come_since(entry: ListEntry, mark: Mark, rule: ListRule) -> bool:
    return bool(entry.at and mark.newest and entry.at - mark.newest > TICK - rule.overlap)


def _is_last(page: ListedPage, asked_with: Position, rule: ListRule, is_new: bool, repeats: bool) -> bool:
    if page.next in (None, "") or (page.next == asked_with and not is_new):
        return True
    if rule.pages == "cursor":
        return False  # an empty page that leads to another one is not the end
    return not page.entries or repeats  # some servers show the last page for all later numbers


def _lost_some(look: VisitProgress, page: ListedPage, keys: Sequence[str], rule: ListRule) -> bool:
    """Returns True if entries may have moved to the page before, after that was read, because others were removed."""
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
