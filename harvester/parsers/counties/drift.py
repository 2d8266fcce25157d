"""Checks whether the pages of a site still look as before: their labels, and the kinds of the values beside these.

A card that lacks a label may describe a parcel without a building, or be the first card after the site has renamed the
label. The card alone does not decide this. The control page (`witness`) does: a card that had the label before,
requested once more. A table names all its columns on each page and needs no control page.

The meaning of labels may change, too. Control parcels reveal that: the first parcels of a job, one requested again
every few pages, and whenever the facts have another distribution than before.
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
"""The labels of a page, and for each label with a value also its kind: `Total`, `Total (a number)`."""
LEARNT = 10
"""Number of first pages of a job that are learned without a check."""
CHANCE = 1e-4
"""Maximum probability that consecutive pages lack a label by chance; below it, the label is missed."""
COMMON = 0.2
"""Share of pages with a label, below which it is not missed."""
MOST_KNOWN = 1000
"""Maximum number of labels and kinds. Beyond it the labels are data, and a new one has no meaning."""
MOST_NAMED = 5
"""Maximum number of labels named in a message."""
LEAST_VALUES = 5
"""Minimum number of values in a column of a page that decide its kind."""
LOOKED_AT = 20
"""Number of rows of a page that are checked first."""
CONTROL_EVERY = 12
"""Number of pages stored between two requests for control parcels."""
MAX_UNPROVEN = 20
"""Maximum number of pages stored since a control parcel was last unchanged. No more are stored until one is."""
UNASKED = "no control parcel was asked for yet"
"""The message of a process that has not requested a control parcel yet."""
MAX_CONTROLS = 3
"""Maximum number of control parcels, which take turns."""
_is_said = re.compile("[^\\W0]").search
"""Matches a value that is not blank: not 0, --, 00/00/0000."""
_of_a_value = re.compile(r"(.*) \((?:a number|a date|text)\)").fullmatch
_year = re.compile(r"\b(?:19|20)\d\d\b").sub


def signature_of(said: Iterable[tuple[str, str]]) -> Signature:
    """Returns the signature of a page from its labels and the values beside them. Years in labels are replaced."""
    found = set()
    for label, text in said:
        label = _year("YEAR", label)
        found.add(label)
        if text:
            found.add(f"{label} ({_kind_of(text)})")
    return frozenset(found)


def beside(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yields the labels above rows, each with the first value below it."""
    for at, label in enumerate(header):
        yield label, next((row[at] for row in rows if at < len(row) and row[at]), "")


def _kind_of(text: str) -> str:
    if values.number(text) is not None:
        return "a number"
    return "a date" if values.iso_date(text) else "text"


def difference(before: Iterable[str], now: Signature) -> str:
    """Returns which labels of a page are missing and which are new; empty if all are present."""
    lost, new = _labels({*before} - now), _labels(now - {*before})
    if not lost:
        return ""
    return f"lacks {_named(lost)}" + (f", and has {_named(new)}" if new else "")


class KnownCard(NamedTuple):
    """The state of a control parcel's card when it was stored."""

    parcel_id: str
    look: Signature
    digests: Facts
    """The digests of the facts."""
    facts: Facts = {}  # noqa: RUF012
    """The facts themselves; empty if another process stored the card."""
    is_old: bool = False
    """True if the card was stored days ago."""

    @classmethod
    def of(cls, parcel_id: str, look: Signature, facts: Facts) -> "KnownCard":
        """Builds what is remembered of a control parcel from its page, which was just read."""
        return cls(parcel_id, look, digests(facts), facts)


class Controls:
    """The facts on the cards of a job that this process has read, and which ones are proven right."""

    def __init__(self) -> None:
        self._known: dict[str, KnownCard] = {}
        """The control parcels: the first parcels of the job."""
        self._turn = 0
        self._spread = Distribution()
        self._unproven: list[tuple[str, Facts]] = []
        """The parcels stored since a control parcel was last unchanged."""
        self._proven = 0
        """Number of parcels stored before the unproven ones."""
        self._asked = 0
        """Number of parcels stored when a control parcel was last requested."""
        self._changed: dict[str, KnownCard] = {}
        """Control parcels that have changed, until another one shows whether the site has changed."""
        self.is_kept = False
        """True if the present control parcels were saved for other processes."""
        self.doubt = ""
        """The message about changed values of control parcels; empty once a control parcel is unchanged."""

    @property
    def stored(self) -> int:
        return self._proven + len(self._unproven)

    @property
    def unproven(self) -> list[str]:
        """The parcels stored since a control parcel was last unchanged."""
        return [parcel_id for parcel_id, _ in self._unproven]

    @property
    def known(self) -> list[KnownCard]:
        """The control parcels."""
        return [*self._known.values()]

    @classmethod
    def begun_with(cls, known: Iterable[KnownCard]) -> "Controls":
        """Builds controls from an earlier process or job. No page is stored until a control parcel was requested."""
        controls = cls()
        controls._known = {each.parcel_id: each for each in known}
        if controls._known:
            controls.doubt = UNASKED
        return controls

    @property
    def is_due(self) -> bool:
        """True if the next request for a control parcel is due."""
        return self.stored - self._asked >= CONTROL_EVERY

    def why_strange(self, facts: Facts) -> str:
        """Returns why a control parcel must be requested before this page is stored; else empty."""
        if self.doubt:
            return self.doubt
        if len(self._unproven) >= MAX_UNPROVEN:
            return f"{len(self._unproven)} were stored since"
        return self._spread.why_strange(facts)

    def next(self, *other_than: str) -> KnownCard | None:
        """Returns the control parcel whose turn it is, without the given ones, or None."""
        known = [each for each in self._known.values() if each.parcel_id not in other_than]
        self._turn += 1
        self._asked = self.stored
        return known[self._turn % len(known)] if known else None

    def store(self, page: KnownCard) -> None:
        """Records a page that is stored."""
        if len(self._known) < MAX_CONTROLS:
            self._known.setdefault(page.parcel_id, page)
            self.is_kept = False
        self._spread.store(page.facts)
        self._unproven.append((page.parcel_id, page.facts))
        if self.stored <= LEARNT:
            self._spread.learn([page.facts])

    def are_as_before(self, now: KnownCard, until: int) -> None:
        """Records that a control parcel was unchanged. `until`: number of parcels stored when it was requested."""
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
        """Accepts a strange page, because the control parcels are unchanged."""
        self._spread.allow(facts)

    def is_changed(self, page: KnownCard) -> None:
        """Records a changed control parcel. Another one will show whether the site has changed."""
        self._changed[page.parcel_id] = page

    def have_changed(self, said: str) -> None:
        """Records that the control parcels have changed."""
        self.doubt, self._changed = said, {}


class Pages:
    """The labels on the cards of a job that this process has read."""

    def __init__(self) -> None:
        self.controls = Controls()
        self.witness, self.shown = "", Signature()
        """The parcel whose card has most labels and kinds, and the card's signature."""
        self.facts: Facts = {}
        """The facts on the control page."""
        self.changed = ""
        """The message about the changed control page; empty once a page has the old layout."""
        self._lost = Signature()
        """The labels and kinds that the changed control page has lost."""
        self._read = 0
        self._had: Counter[str] = Counter()
        """Label -> number of pages with it."""
        self._last: dict[str, int] = {}
        """Label -> number of the last page that has it, or was found to be right without it."""

    def is_strange(self, page: Signature) -> bool:
        """Returns True if the control page must be requested: a page has a new label, or lacks an expected one."""
        if self._read < LEARNT:
            return False
        is_new = len(self._had) < MOST_KNOWN and not page <= self._had.keys()
        return is_new or any(map(self._is_missed, self._had.keys() - page))

    def learn(self, parcel_id: str, page: Signature, facts: Facts | None = None, *, is_right: bool) -> list[str]:
        """Learns a page of the site.

        Returns its new labels. `is_right`: the control page was requested and is unchanged.
        """
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
        """Records that the control page has changed. `lost`: its lost labels and kinds."""
        self.changed, self._lost = said, lost

    def shows_lost(self, page: Signature) -> bool:
        """Returns True if a page has all labels and kinds that the control page has lost."""
        return self._lost <= page

    def is_as_before(self) -> None:
        """Records that the control page is unchanged, or that another page has the lost labels."""
        self.changed, self._lost = "", Signature()

    def _is_missed(self, label: str) -> bool:
        had, in_a_row = self._had[label] / self._read, self._read - self._last[label] + 1
        return had >= COMMON and (1 - had) ** in_a_row < CHANCE


class Columns(NamedTuple):
    """The columns of a table on one page."""

    names: frozenset[str] = frozenset()
    """The names of all columns; empty if the page does not list all."""
    filled: Mapping[str, int] = {}
    """Column that a field is read from -> number of values in the checked rows."""
    read: Mapping[str, int] = {}
    """Column that a field is read from -> number of values of the field's kind."""
    kinds: Mapping[str, str] = {}
    """Column -> kind of values that the table declares; columns without a declared kind are left out."""

    @classmethod
    def of(
        cls, names: Iterable[str], kinds: Mapping[str, Callable[[str], bool]], rows: Sequence[Mapping[str, Any]]
    ) -> "Columns":
        """Counts the values in the first rows, or in all rows if the first ones have no value of the column's kind."""
        filled, read = {}, {}
        for name, is_of_kind in kinds.items():
            for some in (rows[:LOOKED_AT], rows):
                texts = [text for row in some if (text := values.text(row.get(name))) and _is_said(text)]
                filled[name], read[name] = len(texts), sum(map(is_of_kind, texts))
                if read[name]:
                    break
        return cls(frozenset(names), filled, read)


class KnownTable:
    """The columns of a job's table that this process has read."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._read: set[str] = set()
        """Columns whose values were of the expected kind."""
        self._kinds: dict[str, str] = {}
        """Column -> kind of values that the table declared."""
        self._spread = Distribution()

    def check_records(self, records: Iterable[CountyRecord]) -> None:
        """Raises ParseError when a field has one value, or another shape than before, in nearly all rows of a page."""
        pages = [*parcels_of(records)]
        if said := self._spread.why_strange_rows(pages):
            raise ParseError(f"the table says something else than before: {said}")
        self._spread.learn(pages)

    def check(self, page: Columns) -> list[str]:
        """Raises ParseError when the table has changed. Returns the new columns."""
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
    """Returns the labels in order, without the kinds of labels that are in the set themselves."""
    return sorted(each for each in found if not ((of := _of_a_value(each)) and of[1] in found))


def _named(labels: Sequence[str]) -> str:
    shown = ", ".join(repr(label) for label in labels[:MOST_NAMED])
    return shown + (f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else "")
