"""Reads a page's facts about its parcel, and checks whether the facts of many pages are still distributed as before.

Labels do not reveal that a site shows `LOGIN TO VIEW` as each owner, amounts in thousands, or the mailing address as
the situs. A value that all parcels suddenly share does, and so does a value with a new shape. Neither is proof: one
owner may own a whole street. They decide when to request again a parcel whose facts are known.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2s
from typing import Any

from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill

Facts = Mapping[str, str]
"""The name of a fact, `owner_names` or `market_value 2025` -> its value."""
CHANCE = 1e-4
"""Probability of the facts of consecutive pages below which they are strange."""
RARE = 0.2
"""Share of pages below which a shape is rare."""
MIN_PAGES = 10
"""Minimum number of known pages before a page can be strange."""
MIN_ROWS = 50
"""Minimum number of rows in a page of a table, and in the pages before it, for a verdict."""
SAME = 0.9
"""Minimum share of the rows of such a page that have one value, or a rare shape, for the page to be strange."""
MAX_VALUES = 1000
"""Maximum number of values counted for a field."""
MAX_SHOWN = 60
"""Maximum number of characters of a value in a message; requests carry such messages in their meta."""
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
"""Amounts paid and due are left out because they change from day to day."""
_is_zip = re.compile(r"\d{5}(?:-?\d{4})?").fullmatch


def facts_of(records: Iterable[CountyRecord]) -> dict[str, str]:
    """Returns all facts in the records of a parcel, each named with its year or its sale."""
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
    """Returns the digests of the values. Requests and stores hold only these, and no facts about people."""
    return {name: blake2s(value.encode(), digest_size=6).hexdigest() for name, value in facts.items()}


def different(before: Facts, now: Facts, shown_before: Facts | None = None, *, is_old: bool = False) -> dict[str, str]:
    """Returns the fields with a lost or changed fact -> a message with both values. New facts are not differences.

    `before`: digests. `shown_before`: the facts themselves, if they are known. `is_old`: a newer roll may have been
    published since.
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
    """Returns True for a missing fact of an earlier year if the page has the same fact for a later year."""
    field = name.partition(" ")[0]
    return (
        name not in now and of[:4].isdecimal() and any(other > name for other in now if other.startswith(f"{field} "))
    )


def sample(facts: Facts) -> dict[str, str]:
    """Returns the newest fact for each field, because parcels differ in the number of years and sales they show."""
    found = dict.fromkeys((*_OF_PARCEL, *_OF_ROLL, "sale_price"), "")
    for name in sorted(facts):
        field, _, _of = name.partition(" ")
        if field in found:
            found[field] = facts[name]
    return found


def shape(field: str, value: str) -> str:
    """Returns the shape of a value: the number of digits, or the kinds of the first and the last word."""
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
    """The distribution of the facts of a site's parcels, learned from pages that are known to be right."""

    def __init__(self) -> None:
        self._pages = 0
        self._values: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._shapes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._repeated: Counter[str] = Counter()
        """Field -> number of pages with the same value as the page before."""
        self._before: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._run: Counter[str] = Counter()
        """Field -> number of consecutive pages, up to the last stored one, with its last value."""
        self._rare: defaultdict[str, float] = defaultdict(lambda: 1.0)
        """Field -> probability of the rare shapes on the last consecutive pages."""
        self._allowed: set[tuple[str, str]] = set()
        """Field and value of runs that were found to be right."""

    def why_strange(self, page: Facts) -> str:
        """Returns a message if a field of the next page is no longer distributed as on the stored ones; else empty."""
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
        """Counts a stored page into its run. The page is not yet known to be right."""
        for field, value in sample(page).items():
            self._rare[field] = self._rareness(field, value)
            self._run[field] = self._run[field] + 1 if value == self._last.get(field) else 1
            self._last[field] = value

    def learn(self, pages: Iterable[Facts]) -> None:
        """Learns pages as right, in the order of their arrival."""
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
        """Accepts the strange values of this page, because the site has not changed."""
        self._rare.clear()
        self._allowed.update((field, value) for field, value in sample(page).items() if value)
        if len(self._allowed) > MAX_VALUES:
            self._allowed.clear()

    def why_strange_rows(self, pages: Sequence[Facts]) -> str:
        """Returns a message if a field has one value or a rare shape in nearly all rows of a page; else empty."""
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
        """Returns the probability that a page has the same value as the page before."""
        return (1 + max(self._values[field][value], self._repeated[field])) / (self._pages + 2)

    def _rareness(self, field: str, value: str) -> float:
        share = (1 + self._shapes[field][shape(field, value)]) / (self._pages + 2)
        return self._rare[field] * share if share < RARE else 1.0


def parcels_of(records: Iterable[CountyRecord]) -> Iterator[dict[str, str]]:
    """Yields the facts, parcel by parcel, from records about many parcels."""
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
