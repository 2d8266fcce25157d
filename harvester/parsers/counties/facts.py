"""What a page says of its parcel as plain facts, and whether the facts of many pages are still spread as before.

Labels do not tell that a site shows `LOGIN TO VIEW` as each owner, amounts in thousands or the mailing address as the
situs. A value that all parcels have at once does, and so does one of another shape than before. Neither is proof: a
street may belong to one owner. What these tell is when to ask for a parcel again whose facts are known.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2s
from typing import Any

from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill

Facts = Mapping[str, str]
"""Name of a fact, `owner_names` or `market_value 2025` -> its value."""
CHANCE = 1e-4
"""The facts of pages in a row are strange when they would come so with less than this probability."""
RARE = 0.2
"""Share of pages below which a shape is rare."""
MIN_PAGES = 10
"""That are known before the next one may be strange."""
MIN_ROWS = 50
"""Of a page of a table, and of those before it, by which it is judged."""
SAME = 0.9
"""Share of the rows of such a page from which on a value or a rare shape is that of everybody."""
MAX_VALUES = 1000
"""Of a field that are counted."""
MAX_SHOWN = 60
"""Characters of a value in a message, and in what goes along with requests."""
_OF_PARCEL = (
    *("owner_names", "mailing_address", "situs_address", "situs_city", "situs_zip", "legal_description", "use_code"),
    *("use_description", "zoning", "acres", "year_built", "living_area_sqft", "tax_year"),
)
_OF_ROLL = (
    *("market_value", "market_land_value", "market_improvement_value", "appraised_value", "assessed_value"),
    *("assessed_land_value", "assessed_improvement_value", "taxable_value", "total_value", "land_value"),
    *("improvement_value", "ag_value", "exemption_value"),
)
_OF_SALE = ("sale_price", "grantor", "grantee", "deed_type", "book", "page", "instrument_number")
_OF_BILL = ("billed",)
"""What is paid and due changes from day to day."""
_is_zip = re.compile(r"\d{5}(?:-?\d{4})?").fullmatch


def facts_of(records: Iterable[CountyRecord]) -> dict[str, str]:
    """All that the records of a parcel say, each fact with the year or the sale that it is of."""
    found: dict[str, str] = {}
    for record in records:
        if isinstance(record, Property):
            found |= _said(record, _OF_PARCEL)
        elif isinstance(record, Assessment):
            found |= {f"{field} {record.roll}": value for field, value in _said(record, _OF_ROLL).items()}
        elif isinstance(record, Sale):
            found[f"sale {record.transfer}"] = ""
            found |= {f"{field} {record.transfer}": value for field, value in _said(record, _OF_SALE).items()}
        elif isinstance(record, TaxBill):
            found |= {f"{field} {record.bill}": value for field, value in _said(record, _OF_BILL).items()}
    return found


def digests(facts: Facts) -> dict[str, str]:
    """Of the values. So they go along with requests and are kept: no fact about anybody is in them."""
    return {name: blake2s(value.encode(), digest_size=6).hexdigest() for name, value in facts.items()}


def different(before: Facts, now: Facts, shown_before: Facts | None = None, *, is_old: bool = False) -> dict[str, str]:
    """Fields of which a fact is gone or another one -> what was there and what is; facts that are new are none.

    `before`: digests. `shown_before`: the facts themselves, if they are known. `is_old`: a newer roll may have come.
    """
    found: dict[str, str] = {}
    known, shown = shown_before or {}, digests(now)
    for name, digest in before.items():
        field, _, of = name.partition(" ")
        if shown.get(name) == digest or (is_old and (field == "tax_year" or _is_outdated(of, name, now))):
            continue
        was = repr(_cut(known[name])) if name in known else "another value"
        is_now = repr(_cut(now[name])) if name in now else "nothing"
        found.setdefault(field, f"{name}: {was} before, {is_now} now")
    return found


def _is_outdated(of: str, name: str, now: Facts) -> bool:
    """True for a fact of a year that is gone where the page has the same of a later one."""
    field = name.partition(" ")[0]
    return (
        name not in now and of[:4].isdecimal() and any(other > name for other in now if other.startswith(f"{field} "))
    )


def sample(facts: Facts) -> dict[str, str]:
    """Of each field one fact, the newest: parcels differ in how many years and sales they show."""
    found = dict.fromkeys((*_OF_PARCEL, *_OF_ROLL, "sale_price"), "")
    for name in sorted(facts):
        field, _, _of = name.partition(" ")
        if field in found:
            found[field] = facts[name]
    return found


def shape(field: str, value: str) -> str:
    """What kind of value it is: how large a number, how an address begins and ends."""
    if not value:
        return "absent"
    if field == "tax_year":
        return value
    try:
        number = Decimal(value)
    except ArithmeticError:
        words = value.split() or ["-"]
        return f"{_kind(words[0])} ... {_kind(words[-1])}"
    return f"{number.adjusted() + 1} digits" if number else "0"


class Distribution:
    """How the facts of a site's parcels are spread, as far as they are known to be right."""

    def __init__(self) -> None:
        self._pages = 0
        self._values: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._shapes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._repeated: Counter[str] = Counter()
        """Field -> pages whose value is that of the page before."""
        self._before: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._run: Counter[str] = Counter()
        """Field -> how many pages in a row, up to the last one that was stored, have its value."""
        self._rare: defaultdict[str, float] = defaultdict(lambda: 1.0)
        """Field -> how likely the rare shapes of so many pages in a row are."""
        self._allowed: set[tuple[str, str]] = set()
        """Field and value of runs that were found to be right."""

    def why_strange(self, page: Facts) -> str:
        """Which field is no longer spread as before, if this page comes after those that were stored; else empty."""
        if self._pages < MIN_PAGES:
            return ""
        for field, value in sample(page).items():
            is_repeated = value and value == self._last.get(field) and (field, value) not in self._allowed
            if is_repeated and self._chance_of(field, value) ** self._run[field] < CHANCE:
                return f"{field} is {_cut(value)!r} on {self._run[field] + 1} pages in a row"
            if self._rareness(field, value) < CHANCE:
                return f"{field} has another shape than before: {_cut(value)!r}"
        return ""

    def store(self, page: Facts) -> None:
        """Counts a page that is stored into its run. It is not known to be right yet."""
        for field, value in sample(page).items():
            self._rare[field] = self._rareness(field, value)
            self._run[field] = self._run[field] + 1 if value == self._last.get(field) else 1
            self._last[field] = value

    def learn(self, pages: Iterable[Facts]) -> None:
        """Takes pages for right, in the order in which they came."""
        for page in pages:
            self._pages += 1
            now = sample(page)
            for field, value in now.items():
                self._values[field][value] += 1
                self._shapes[field][shape(field, value)] += 1
                self._repeated[field] += value == self._before.get(field)
                if len(self._values[field]) > 2 * MAX_VALUES:
                    self._values[field] = Counter(dict(self._values[field].most_common(MAX_VALUES)))
            self._before = now

    def allow(self, page: Facts) -> None:
        """The site has not changed: what was strange of this page is right."""
        self._rare.clear()
        self._allowed.update((field, value) for field, value in sample(page).items() if value)
        if len(self._allowed) > MAX_VALUES:
            self._allowed.clear()

    def why_strange_rows(self, pages: Sequence[Facts]) -> str:
        """Of a page of a table with many parcels: which field has one value or one rare shape for all; else empty."""
        if len(pages) < MIN_ROWS or self._pages < MIN_ROWS:
            return ""
        rows = [sample(page) for page in pages]
        for field in rows[0]:
            values = Counter(row[field] for row in rows)
            value, number = values.most_common(1)[0]
            if number >= SAME * len(rows) and self._values[field][value] < self._pages / 2:
                return f"{field} is {_cut(value)!r} in {number} of {len(rows)} rows, and was in few before"
            known = self._shapes[field]
            rare = sum(known[shape(field, row[field])] < self._pages / 100 for row in rows)
            if field != "tax_year" and rare >= SAME * len(rows):
                return f"{field} has another shape than before in {rare} of {len(rows)} rows, like {_cut(value)!r}"
        return ""

    def _chance_of(self, field: str, value: str) -> float:
        """That a page has the value of the page before."""
        return (1 + max(self._values[field][value], self._repeated[field])) / (self._pages + 2)

    def _rareness(self, field: str, value: str) -> float:
        share = (1 + self._shapes[field][shape(field, value)]) / (self._pages + 2)
        return self._rare[field] * share if share < RARE else 1.0


def parcels_of(records: Iterable[CountyRecord]) -> Iterator[dict[str, str]]:
    """The facts of each parcel that records of many speak of."""
    by_parcel: defaultdict[str, list[CountyRecord]] = defaultdict(list)
    for record in records:
        by_parcel[record.parcel_id].append(record)
    return map(facts_of, by_parcel.values())


def _said(record: CountyRecord, fields: Iterable[str]) -> dict[str, str]:
    shown = {field: getattr(record, field) for field in fields}
    return {field: _text(value) for field, value in shown.items() if value not in (None, ())}


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "; ".join(map(str, value))
    return (
        f"{value.normalize():f}"
        if isinstance(value, Decimal)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _cut(value: str) -> str:
    return value[:MAX_SHOWN]


def _kind(word: str) -> str:
    if _is_zip(word):
        return "zip"
    return "number" if word[0].isdigit() else "word"
