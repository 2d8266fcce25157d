"""Tells whether the pages of a site are still what they were: by their labels, and by the kinds of values beside them.

A card that lacks a label may be that of a parcel without a building, or the first one of a site that has renamed it.
The card alone does not tell. Another one does that had the label before, and is asked for once more: the witness. A
table names all its columns each time, and needs none.

What the labels mean may change, too. Control parcels tell: the first ones of a job, of which one is asked for again
every few pages, and whenever facts are spread otherwise than before.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from harvester.exceptions import ParseError
from harvester.items.property import CountyRecord
from harvester.parsers.counties import values
from harvester.parsers.counties.facts import Distribution, Facts, digests, parcels_of

Signature = frozenset[str]
"""Labels of a page, and of those with a value what kind of value it is: `Total`, `Total (a number)`."""
LEARNT = 10
"""Pages of a job that are taken as they are."""
CHANCE = 1e-4
"""That so many pages in a row lack a label is no chance, where it is less than this."""
COMMON = 0.2
"""Share of pages with a label, below which it is not missed."""
MOST_KNOWN = 1000
"""Labels and kinds; where there are more, labels are data, and a new one says nothing."""
MOST_NAMED = 5
"""In a message."""
LEAST_VALUES = 5
"""In a column of a page, by which its kind is judged."""
LOOKED_AT = 20
"""Rows of a page."""
CONTROL_EVERY = 12
"""Pages that are stored until a control parcel is asked for again."""
MAX_UNPROVEN = 20
"""Pages that are stored since a control parcel was as before; no other one is until then."""
UNASKED = "no control parcel was asked for yet"
"""Of a process that has stored nothing yet."""
MAX_CONTROLS = 3
"""Parcels, by turns."""
_is_said = re.compile("[^\\W0]").search
"""Not 0, --, 00/00/0000."""
_of_a_value = re.compile(r"(.*) \((?:a number|a date|text)\)").fullmatch
_year = re.compile(r"\b(?:19|20)\d\d\b").sub


def signature_of(said: Iterable[tuple[str, str]]) -> Signature:
    """Of a page, from its labels with what stands beside them. Years in labels are no part of them."""
    found = set()
    for label, text in said:
        label = _year("YEAR", label)
        found.add(label)
        if text:
            found.add(f"{label} ({_kind_of(text)})")
    return frozenset(found)


def beside(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The labels above rows, each with the first value below it."""
    for at, label in enumerate(header):
        yield label, next((row[at] for row in rows if at < len(row) and row[at]), "")


def _kind_of(text: str) -> str:
    if values.number(text) is not None:
        return "a number"
    return "a date" if values.iso_date(text) else "text"


def difference(before: Iterable[str], now: Signature) -> str:
    """What of a page is not there any more, and what is instead; empty when all is there."""
    lost, new = _labels({*before} - now), _labels(now - {*before})
    if not lost:
        return ""
    return f"lacks {_named(lost)}" + (f", and has {_named(new)}" if new else "")


class KnownCard(NamedTuple):
    """What the card of a control parcel was like when it was stored."""

    parcel_id: str
    look: Signature
    digests: Facts
    """Of its facts."""
    facts: Facts = {}  # noqa: RUF012
    """The facts themselves; empty when another process has stored it."""
    is_old: bool = False
    """True if that was days ago."""

    @classmethod
    def of(cls, parcel_id: str, look: Signature, facts: Facts) -> "KnownCard":
        """That of a card that was read just now."""
        return cls(parcel_id, look, digests(facts), facts)


class Controls:
    """What the cards of a job say, as far as this process has read them, and which of it is known to be right."""

    def __init__(self) -> None:
        self._known: dict[str, KnownCard] = {}
        """The first parcels of the job."""
        self._turn = 0
        self._spread = Distribution()
        self._unproven: list[tuple[str, Facts]] = []
        """Parcels that were stored since a control parcel was as before."""
        self._proven = 0
        """How many were stored before those."""
        self._asked = 0
        """How many were stored when a control parcel was asked for last."""
        self._changed: dict[str, KnownCard] = {}
        """Control parcels that were not as before, until another one tells whether the site has changed."""
        self.is_kept = False
        """True if those that there are were kept for other processes."""
        self.doubt = ""
        """What was said of the values of control parcels that were not as before; until one is."""

    @property
    def stored(self) -> int:
        return self._proven + len(self._unproven)

    @property
    def unproven(self) -> list[str]:
        """Parcels that were stored since a control parcel was as before."""
        return [parcel_id for parcel_id, _ in self._unproven]

    @property
    def known(self) -> list[KnownCard]:
        """The control parcels."""
        return [*self._known.values()]

    @classmethod
    def begun_with(cls, known: Iterable[KnownCard]) -> "Controls":
        """Those of a process before or of a job before: nothing is stored until one of them was asked for."""
        controls = cls()
        controls._known = {each.parcel_id: each for each in known}
        if controls._known:
            controls.doubt = UNASKED
        return controls

    @property
    def is_due(self) -> bool:
        """True when a control parcel is to be asked for beside the pages that are stored."""
        return self.stored - self._asked >= CONTROL_EVERY

    def why_strange(self, facts: Facts) -> str:
        """Why a page must not be stored before a control parcel was asked for; else empty."""
        if self.doubt:
            return self.doubt
        if len(self._unproven) >= MAX_UNPROVEN:
            return f"{len(self._unproven)} were stored since"
        return self._spread.why_strange(facts)

    def next(self, *other_than: str) -> KnownCard | None:
        """The control parcel whose turn it is, if there is another one than these."""
        known = [each for each in self._known.values() if each.parcel_id not in other_than]
        self._turn += 1
        self._asked = self.stored
        return known[self._turn % len(known)] if known else None

    def store(self, page: KnownCard) -> None:
        """Takes note of a page that is stored."""
        if len(self._known) < MAX_CONTROLS:
            self._known.setdefault(page.parcel_id, page)
            self.is_kept = False
        self._spread.store(page.facts)
        self._unproven.append((page.parcel_id, page.facts))
        if self.stored <= LEARNT:
            self._spread.learn([page.facts])

    def are_as_before(self, now: KnownCard, until: int) -> None:
        """A control parcel is; when it was asked for, so many pages were stored."""
        self.doubt = ""
        if (before := self._known.get(now.parcel_id)) and before.is_old:
            self._known[now.parcel_id], self.is_kept = now, False
        right = self._unproven[: max(0, until - self._proven)]
        self._spread.learn(facts for at, (_, facts) in enumerate(right, self._proven) if at >= LEARNT)
        del self._unproven[: len(right)]
        self._proven += len(right)
        if self._changed:
            self._known |= self._changed
            self._changed, self.is_kept = {}, False

    def allow(self, facts: Facts) -> None:
        """A page was strange, and the control parcels are as before."""
        self._spread.allow(facts)

    def is_changed(self, page: KnownCard) -> None:
        """A control parcel is not as before; another one will tell whether the site has changed."""
        self._changed[page.parcel_id] = page

    def have_changed(self, said: str) -> None:
        """Control parcels are not as before."""
        self.doubt, self._changed = said, {}


class Pages:
    """What the cards of a job looked like, as far as this process has read them."""

    def __init__(self) -> None:
        self.controls = Controls()
        self.witness, self.shown = "", Signature()
        """The parcel whose card says most, and what it looked like."""
        self.facts: Facts = {}
        """What it said."""
        self.changed = ""
        """What was said of the witness when it was asked last and was not as before; until a page is."""
        self._lost = Signature()
        """What the witness had before, and had not then."""
        self._read = 0
        self._had: Counter[str] = Counter()
        """Label -> pages with it."""
        self._last: dict[str, int] = {}
        """Label -> number of the last page with it, or of that which was found to be right without it."""

    def is_strange(self, page: Signature) -> bool:
        """Whether the witness has to be asked: a page has what none had, or lacks what it should have."""
        if self._read < LEARNT:
            return False
        is_new = len(self._had) < MOST_KNOWN and not page <= self._had.keys()
        return is_new or any(map(self._is_missed, self._had.keys() - page))

    def learn(self, parcel_id: str, page: Signature, facts: Facts | None = None, *, is_right: bool) -> list[str]:
        """Takes a page as one of the site's. Returns its new labels. `is_right`: the witness has been asked."""
        new = [each for each in _labels(page - self._had.keys()) if not _of_a_value(each)]
        is_known = self._read >= LEARNT
        if is_right or not self._lost.isdisjoint(page):
            self.is_as_before()
        self._read += 1
        self._had.update(page)
        self._last.update(dict.fromkeys(self._had if is_right else page, self._read))
        if len(page) > len(self.shown):
            self.witness, self.shown, self.facts = parcel_id, page, facts or {}
        self.controls.store(KnownCard.of(parcel_id, page, facts or {}))
        return new if is_known else []

    def has_changed(self, said: str, lost: Signature) -> None:
        """The witness was not as before. `lost`: what of it was not there."""
        self.changed, self._lost = said, lost

    def shows_lost(self, page: Signature) -> bool:
        """True if a page has all that the witness had lost."""
        return self._lost <= page

    def is_as_before(self) -> None:
        """It is, or another page has what was lost."""
        self.changed, self._lost = "", Signature()

    def _is_missed(self, label: str) -> bool:
        had, in_a_row = self._had[label] / self._read, self._read - self._last[label] + 1
        return had >= COMMON and (1 - had) ** in_a_row < CHANCE


class Columns(NamedTuple):
    """A table, as a page of it shows it."""

    names: frozenset[str] = frozenset()
    """Empty: the page does not say them all."""
    filled: Mapping[str, int] = {}
    """Column that a field is read from -> values in it, of the rows that were looked at."""
    read: Mapping[str, int] = {}
    """The same -> those that are of the field's kind."""
    kinds: Mapping[str, str] = {}
    """Column -> what the table says that it holds; without those of which it says nothing."""

    @classmethod
    def of(
        cls, names: Iterable[str], kinds: Mapping[str, Callable[[str], bool]], rows: Sequence[Mapping[str, Any]]
    ) -> "Columns":
        """The first rows are looked at, and all where these have no value of the column's kind."""
        filled, read = {}, {}
        for name, is_of_kind in kinds.items():
            for some in (rows[:LOOKED_AT], rows):
                texts = [text for row in some if (text := values.text(row.get(name))) and _is_said(text)]
                filled[name], read[name] = len(texts), sum(map(is_of_kind, texts))
                if read[name]:
                    break
        return cls(frozenset(names), filled, read)


class KnownTable:
    """What a table of a job looked like, as far as this process has read it."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._read: set[str] = set()
        """Columns whose values were of their kind."""
        self._kinds: dict[str, str] = {}
        """Column -> what the table said that it holds."""
        self._spread = Distribution()

    def check_records(self, records: Iterable[CountyRecord]) -> None:
        """Raises ParseError when a page of rows has a field that is the same for all, or another one than before."""
        pages = [*parcels_of(records)]
        if said := self._spread.why_strange_rows(pages):
            raise ParseError(f"the table says something else than before: {said}")
        self._spread.learn(pages)

    def check(self, page: Columns) -> list[str]:
        """Raises ParseError when the table has changed. Returns the columns that are new."""
        if self._names and page.names and (said := difference(self._names, page.names)):
            raise ParseError(f"the table is not as before: it {said}")
        for name, kind in page.kinds.items():
            if (before := self._kinds.setdefault(name, kind)) != kind:
                raise ParseError(f"the column {name!r} has values of another kind than before: {kind}, not {before}")
        for name in self._read:
            if page.filled.get(name, 0) >= LEAST_VALUES and not page.read[name]:
                raise ParseError(f"the column {name!r} has values of another kind than before")
        new = sorted(page.names - self._names) if self._names else []
        self._names |= page.names
        self._read |= {name for name, number in page.read.items() if 2 * number > page.filled[name]}
        return new


def _labels(found: Set[str]) -> list[str]:
    """Without the kinds of values beside a label that is among them."""
    return sorted(each for each in found if not ((of := _of_a_value(each)) and of[1] in found))


def _named(labels: Sequence[str]) -> str:
    shown = ", ".join(repr(label) for label in labels[:MOST_NAMED])
    return shown + (f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else "")
