"""Compares the records of a page with what an independent reader finds on it (`NAME.expected.json`)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill

RIGHT, WRONG, MISSING = "right", "wrong", "missing"
_PLAIN = {
    "parcel_id": "parcel_id",
    "situs_city": "situs_city",
    "situs_zip": "situs_zip",
    "mailing": "mailing_address",
    "legal": "legal_description",
    "acres": "acres",
    "use_code": "use_code",
    "use_description": "use_description",
    "zoning": "zoning",
    "neighborhood": "neighborhood",
    "subdivision": "subdivision",
    "year_built": "year_built",
    "living_area": "living_area_sqft",
    "tax_year": "tax_year",
}
"""Expected field -> field of a Property."""
_MONEY: Mapping[str, Sequence[str]] = {
    "land": ("land_value", "market_land_value", "assessed_land_value"),
    "building": ("improvement_value", "market_improvement_value", "assessed_improvement_value"),
    "improvements": ("improvement_value", "market_improvement_value", "assessed_improvement_value"),
    "total": ("total_value", "market_value", "appraised_value", "assessed_value"),
    "taxable": ("taxable_value",),
    "appraised": ("appraised_value",),
}
"""Expected value -> the fields of an Assessment of which one has it, where the page names no basis."""
_BILLS = {"net": "billed"}
_OTHER_IDS = ("geographic_id", "account", "mblu")
_IS_NO_FIELD = frozenset(
    ["origin", "note", "complete", "url", "parcel_id_field", "rows", "or years", "refused", "buildings"]
)
_NUMBERS = ("instrument", "number")
"""Of sales: without a value they were not looked for."""
_letters = re.compile(r"[^0-9A-Z]+")


class Compared(NamedTuple):
    """A field of a page, and how it was read."""

    field: str
    verdict: str
    expected: Any
    found: Any


def compare(records: Sequence[CountyRecord], expected: Mapping[str, Any]) -> list[Compared]:
    """Every field that is expected, and, where the expectation is complete, every sale and year beyond it."""
    if "rows" in expected:
        return [each for row in expected["rows"] for each in _row(records, {"complete": True, **row})]
    return list(_page(records, expected))


def _row(records: Iterable[CountyRecord], expected: Mapping[str, Any]) -> Iterator[Compared]:
    of_it = [record for record in records if record.parcel_id == expected["parcel_id"]]
    for each in _page(of_it, expected):
        yield each._replace(field=f"{expected['parcel_id']}: {each.field}")


def _page(records: Iterable[CountyRecord], expected: Mapping[str, Any]) -> Iterator[Compared]:
    records = list(records)
    parcel = next((each for each in records if isinstance(each, Property)), None)
    assessments = [each for each in records if isinstance(each, Assessment)]
    sales = [each for each in records if isinstance(each, Sale)]
    bills = [each for each in records if isinstance(each, TaxBill)]
    is_whole = bool(expected.get("complete"))
    for name, value in expected.items():
        if name == "assessments":
            yield from _assessments(assessments, value, expected.get("or years", []), is_whole=is_whole)
        elif name == "assessment now":
            yield from _values("assessment now", assessments, value)
        elif name in ("sales", "sales or deeds"):
            yield from _sales(sales, value, is_whole=is_whole)
        elif name == "taxes":
            for year, bill in value.items():
                yield from _bill(year, bills, bill)
        elif name == "no values of":
            for year in value:
                found = [each.roll for each in assessments if each.tax_year == int(year)]
                yield Compared(f"no values of {year}", WRONG if found else RIGHT, None, found)
        elif name.startswith("not "):
            yield from _absent(name, value, records)
        elif name not in _IS_NO_FIELD:
            yield _of_parcel(name, value, parcel)


def _of_parcel(name: str, expected: Any, parcel: Property | None) -> Compared:
    if parcel is None:
        return Compared(name, MISSING, expected, None)
    if name == "owner_names":
        found: Any = list(parcel.owner_names)
        is_it = [_plain(each) for each in found] == [_plain(each) for each in expected]
        return Compared(name, RIGHT if is_it else WRONG if found else MISSING, expected, found)
    if name == "situs":
        return _situs(expected, parcel)
    if name == "use":
        both = (parcel.use_code, parcel.use_description)
        forms = {_plain(" ".join(filter(None, both))), *(_plain(each) for each in both if each)}
        found = " ".join(filter(None, both))
        return Compared(name, RIGHT if _plain(expected) in forms else WRONG if found else MISSING, expected, found)
    if name in _OTHER_IDS:
        found = sorted(parcel.alt_parcel_ids.values())
        is_it = _plain(expected) in map(_plain, found)
        return Compared(name, RIGHT if is_it else MISSING, expected, found)
    if name == "exemptions":
        found = [str(value) for label, value in parcel.others.items() if "exemption" in label.lower()]
        is_it = _plain(" ".join(expected)) in map(_plain, found)
        return Compared(name, RIGHT if is_it else WRONG if found else MISSING, expected, found)
    return _one(name, expected, getattr(parcel, _PLAIN[name]))


def _situs(expected: str | None, parcel: Property) -> Compared:
    """An address with or without its city, which stands in fields of its own on some pages."""
    found = parcel.situs_address
    whole = " ".join(filter(None, (found, parcel.situs_city, parcel.situs_zip)))
    if expected and found and _plain(expected) in (_plain(found), _plain(whole)):
        return Compared("situs", RIGHT, expected, found)
    return _one("situs", expected, found)


def _assessments(
    found: Sequence[Assessment], expected: Mapping[str, Any], others: Sequence[int], *, is_whole: bool
) -> Iterator[Compared]:
    for roll, wanted in expected.items():
        of_year = [each for each in found if str(each.tax_year or "undated") == roll]
        for number, each in enumerate(wanted if isinstance(wanted, list) else [wanted]):
            yield from _values(f"{roll}{f' ({number + 1})' if number else ''}", of_year, each)
    if is_whole:
        known = {*expected, *map(str, others)}
        more = [each.roll for each in found if str(each.tax_year or "undated") not in known]
        yield from (Compared(f"assessment {roll}", WRONG, None, roll) for roll in more)


def _values(name: str, found: Sequence[Assessment], expected: Mapping[str, Any]) -> Iterator[Compared]:
    """Those of the assessment that has most of them."""

    def of(record: Assessment) -> list[Compared]:
        return [_amount(f"{name}: {field}", value, record, field) for field, value in expected.items()]

    every = [of(record) for record in found]
    none = [Compared(f"{name}: {field}", MISSING, value, None) for field, value in expected.items()]
    yield from max(every, key=lambda each: sum(one.verdict == RIGHT for one in each), default=none)


def _amount(name: str, expected: Any, record: Assessment, field: str) -> Compared:
    shown = [getattr(record, each) for each in _MONEY.get(field, (field,))]
    shown = [each for each in shown if each is not None]
    fits = next((each for each in shown if float(each) == expected), None)
    return _one(name, expected, fits if fits is not None else next(iter(shown), None))


def _sales(found: Sequence[Sale], expected: Sequence[Mapping[str, Any]], *, is_whole: bool) -> Iterator[Compared]:
    left = list(found)
    for wanted in expected:
        name = f"sale {wanted.get('date')}"
        every = [(_sale(name, sale, wanted), sale) for sale in left if _is_day(wanted.get("date"), sale)]
        if not every:
            yield from (Compared(f"{name}: {each}", MISSING, value, None) for each, value in wanted.items() if value)
            continue
        best, sale = max(every, key=lambda each: sum(one.verdict == RIGHT for one in each[0]))
        left.remove(sale)
        yield from best
    if is_whole:
        yield from (Compared(f"sale {sale.transfer}", WRONG, None, sale.transfer) for sale in left)


def _is_day(expected: str | None, sale: Sale) -> bool:
    if not expected:
        return sale.sale_date is None
    form = "%m/%d/%Y" if "/" in expected else "%Y-%m-%d"
    return sale.sale_date == datetime.strptime(expected, form).date()


def _sale(name: str, sale: Sale, expected: Mapping[str, Any]) -> list[Compared]:
    deed = "/".join(filter(None, (sale.book, sale.page)))
    has = {
        "price": sale.sale_price,
        "instrument": sale.instrument_number,
        "number": sale.instrument_number,
        "type": sale.deed_type,
        "book_page": deed,
        "grantor": sale.grantor,
        "grantee": sale.grantee,
    }
    dated = Compared(f"{name}: date", RIGHT, expected.get("date"), sale.sale_date)
    asked = [each for each in expected if each in has and (each not in _NUMBERS or expected[each] is not None)]
    return [dated, *(_one(f"{name}: {each}", expected[each], has[each]) for each in asked)]


def _bill(year: str, bills: Sequence[TaxBill], expected: Mapping[str, Any]) -> Iterator[Compared]:
    bill = next((each for each in bills if year in (each.bill, str(each.tax_year), str(each.pay_year))), None)
    for field, value in expected.items():
        yield _one(f"taxes {year}: {field}", value, getattr(bill, _BILLS.get(field, field)) if bill else None)


def _absent(name: str, expected: Sequence[str], records: Sequence[CountyRecord]) -> Iterator[Compared]:
    """What no field may hold, as `not an owner`, and records that there must not be."""
    for each in expected:
        if name == "not on the page" and each in ("sales", "assessments"):
            kind = Sale if each == "sales" else Assessment
            found: Any = [record.key for record in records if isinstance(record, kind)]
        elif name == "not an owner":
            found = [one for record in records if isinstance(record, Property) for one in record.owner_names]
            found = [one for one in found if _plain(each) in _plain(one)]
        else:
            continue
        yield Compared(f"{name}: {each}", WRONG if found else RIGHT, None, found)


def _one(name: str, expected: Any, found: Any) -> Compared:
    if expected in (None, "") or found in (None, ""):
        is_nothing = expected in (None, "") and found in (None, "")
        return Compared(name, RIGHT if is_nothing else WRONG if expected in (None, "") else MISSING, expected, found)
    if isinstance(expected, int | float):
        is_it = abs(float(found) - float(expected)) < 1e-9
    else:
        is_it = _plain(expected) == _plain(str(found.isoformat() if isinstance(found, date) else found))
    return Compared(name, RIGHT if is_it else WRONG, expected, found)


def _plain(text: str) -> str:
    """Letters and digits in capitals: blanks and commas are no part of what a page says."""
    return _letters.sub("", text.upper())
