"""Reads tax bills from sections of pages, by their titles and labels."""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from msgspec import Struct

from harvester.items.property import UNDATED, Installment, TaxBill
from harvester.parsers.counties import values
from harvester.parsers.counties.labels import plain
from harvester.parsers.counties.table import CURRENCY

AMOUNTS: Mapping[str, tuple[str, ...]] = {
    "billed": (
        "NETANNUALTAX", "TOTALBILLED", "TAXBILLED", "BILLED", "TOTALPAYABLE", "TOTALTAX", "NETTAX", "TAXAMOUNT",
        "TOTALCHARGED", "CHARGED", "BILLAMOUNT", "BASETAX", "TAXES",
        "CURRENTNETTAXESASMTSYEAR", "CURRENTNETTAXESASSESSMENTSYEAR", "FULLYEARTAX", "NETTAXESYEAR",
        "TAX",
    ),
    "paid": (
        "TOTALPAID", "AMOUNTPAID", "TAXPAID", "PAID", "PAYMENTS", "PAYMENT", "BASETAXESPAID", "PAYMENTSANDCREDITS",
    ),
    "due": (
        "TOTALUNPAID", "AMOUNTUNPAID", "UNPAID", "TOTALDUE", "AMOUNTDUE", "BALANCEDUE", "BALANCE", "DUE",
        "FULLYEAROWED",
    ),
    "delinquent": ("DELQTAXES", "DELINQUENTTAXES", "DELINQUENT", "PRIORYEAR", "PRIORYEARS"),
}  # fmt: skip
"""Field -> labels, the likeliest first."""
YEARS = ("TAXYEAR", "BILLYEAR", "YEAR", "ROLLYEAR")
PAY_YEARS = ("PAYYEAR", "PAYABLEYEAR")
HALVES = ("INSTALLMENT", "INST", "HALF", "INSTALL")
"""Columns with the number of the installment."""
DUE_DATES = ("DUEDATE", "DATEDUE")
LEDGER = {"TAXCHARGE": "billed", "TAXPAYMENT": "paid"}
"""Type of a row with an amount -> the field that the amount is added to."""
_installment = re.compile(
    r"(?:(1ST|FIRST)|(2ND|SECOND)|(3RD|THIRD)|(4TH|FOURTH))(?:HALF|INSTALLMENT|QUARTER)?(?:TAX|TAXES)?"
).fullmatch
_number = re.compile(r"(?:(\b1|first)|(\b2|second)|(\b3|third)|(\b4|fourth))", re.IGNORECASE).search
_title_year = re.compile(r"\b(?:19|20)\d\d\b").search
_is_estimate = re.compile("estimate", re.IGNORECASE).search
_is_payments = re.compile("payment", re.IGNORECASE).search
_is_due = re.compile(r"\bdue\b", re.IGNORECASE).search
_is_billed = re.compile(r"charged|billed|current year|\bbill\b", re.IGNORECASE).search


_Said = Mapping[str, tuple[str, str]]
"""Plain label -> the label as shown, and its value."""


class TaxSection(Protocol):
    """A table of a page: labels at its side, or above its rows."""

    title: str
    pairs: list[tuple[str, list[str]]]
    header: list[str]
    rows: list[list[str]]


class _Draft(Struct):
    """A bill that is still being read."""

    amounts: dict[str, Any] = {}
    labels: dict[str, str] = {}
    unread: dict[str, str] = {}
    parts: dict[int, dict[str, Any]] = {}
    tax_year: int | None = None
    pay_year: int | None = None

    def take(self, field: str, amount: Decimal | None, label: str, part: int = 0) -> None:
        """Sets an amount, unless an earlier label has set it."""
        if amount is None:
            return
        into: dict[str, Any] = self.parts.setdefault(part, {}) if part else self.amounts
        if field not in into:
            into[field] = abs(amount) if field == "paid" else amount
            self.labels[f"installments.{part}.{field}" if part else field] = label

    def read(self, field: str, shown: str, label: str, part: int = 0) -> None:
        """Sets an amount from its text. An unreadable amount is stored with the reason."""
        try:
            self.take(field, values.read_money(shown), label, part)
        except values.Unreadable as error:
            self.unread.setdefault(f"installments.{part}.{field}" if part else field, values.why_unread(shown, error))

    def read_due_date(self, shown: str, part: int) -> None:
        """Sets the due date of an installment."""
        try:
            if due := values.read_date(shown):
                self.parts.setdefault(part, {}).setdefault("due_date", due)
        except values.Unreadable as error:
            self.unread.setdefault(f"installments.{part}.due_date", values.why_unread(shown, error))


def bills_of(sections: Iterable[TaxSection], year: int, pdf_url: str, of: Mapping[str, Any]) -> list[TaxBill]:
    """Returns a bill for each year. `year`: for sections that name no year; `of`: the fields common to all records."""
    drafts: dict[int, _Draft] = {}
    for section in sections:
        if not _is_estimate(section.title):
            named = _title_year(section.title)
            _read_pairs(section, int(named[0]) if named else year, drafts)
            _read_rows(section, int(named[0]) if named else year, drafts)
    known = {year: draft for year, draft in drafts.items() if draft.amounts or draft.parts}
    latest = max(known, default=0)
    return [_bill(draft, each, pdf_url if each == latest else "", of) for each, draft in sorted(known.items())]


def _bill(draft: _Draft, year: int, pdf_url: str, of: Mapping[str, Any]) -> TaxBill:
    parts = [Installment(number=number, **said) for number, said in sorted(draft.parts.items())]
    return TaxBill(
        **of,
        **draft.amounts,
        bill=str(year or UNDATED),
        tax_year=draft.tax_year if draft.tax_year or draft.pay_year else year or None,
        pay_year=draft.pay_year,
        currency=CURRENCY,
        installments=tuple(parts),
        pdf_url=pdf_url or None,
        labels=draft.labels,
        unread={field: reason for field, reason in draft.unread.items() if field not in draft.labels},
    )


def _read_pairs(section: TaxSection, year: int, drafts: dict[int, _Draft]) -> None:
    said = {plain(label): (label, " ".join(lines)) for label, lines in reversed(section.pairs)}
    tax_year, pay_year = _year_in(said, YEARS), _year_in(said, PAY_YEARS)
    draft = drafts.setdefault(tax_year or pay_year or year, _Draft())
    draft.tax_year, draft.pay_year = tax_year or draft.tax_year, pay_year or draft.pay_year
    usual = _usual(section.title)
    for field, wanted in AMOUNTS.items():
        names = (*wanted, "TOTAL") if field == usual else wanted
        if name := next((each for each in names if each in said), None):
            label, shown = said[name]
            draft.read(field, shown, f"{section.title}: {label}")
    for name, (label, shown) in said.items():
        if part := _installment(name):
            draft.read(usual or "billed", shown, f"{section.title}: {label}", int(part.lastindex or 0))


def _read_rows(section: TaxSection, year: int, drafts: dict[int, _Draft]) -> None:
    """Reads rows of bills.

    If a year has several rows, only payments are read, and added up: other rows have no clear meaning.
    """
    by_part: dict[tuple[int, int], list[_Said]] = {}
    if {"TYPE", "AMOUNT"} <= {plain(label) for label in section.header}:
        _read_ledger(section, year, drafts)
        return
    for row in section.rows:
        said = {plain(label): (label, value) for label, value in zip(section.header, row, strict=False)}
        tax_year, pay_year = _year_in(said, YEARS), _year_in(said, PAY_YEARS)
        if not (found := tax_year or pay_year or (year if any(name in said for name in HALVES) else 0)):
            continue  # the year of the bill is unknown
        draft = drafts.setdefault(found, _Draft())
        draft.tax_year, draft.pay_year = tax_year or draft.tax_year, pay_year or draft.pay_year
        by_part.setdefault((found, _part_of(said)), []).append(said)
    for (found, part), lines in by_part.items():
        for field, wanted in AMOUNTS.items():
            name = next((each for each in wanted if each in lines[0]), None)
            if name and (len(lines) == 1 or (field == "paid" and _is_payments(section.title))):
                label = f"{section.title}: {lines[0][name][0]}"
                if len(lines) == 1:
                    drafts[found].read(field, lines[0][name][1], label, part)
                    continue
                amounts = [amount for said in lines if (amount := values.money(said[name][1])) is not None]
                drafts[found].take(field, sum(amounts, Decimal(0)) if amounts else None, label, part)
        if part and (shown := next((lines[0][name][1] for name in DUE_DATES if name in lines[0]), "")):
            drafts[found].read_due_date(shown, part)


def _read_ledger(section: TaxSection, year: int, drafts: dict[int, _Draft]) -> None:
    """Reads a ledger: each row has a type and an amount.

    The column after the amount is the balance of the day, and skipped.
    """
    sums: dict[tuple[int, str], Decimal] = {}
    for row in section.rows:
        said = {plain(label): value for label, value in zip(section.header, row, strict=False)}
        tax_year = next((found for name in YEARS if (found := values.year(said.get(name)))), year)
        field, amount = LEDGER.get(plain(said["TYPE"])), values.money(said["AMOUNT"])
        if field and tax_year and amount is not None:
            sums[tax_year, field] = sums.get((tax_year, field), Decimal(0)) + amount
    for (tax_year, field), amount in sums.items():
        draft = drafts.setdefault(tax_year, _Draft())
        draft.tax_year = tax_year
        draft.take(field, amount, f"{section.title}: Amount")


def _part_of(said: _Said) -> int:
    """Returns the number of the installment in a row; 0 for the whole bill."""
    shown = next((said[name][1] for name in HALVES if name in said), "")
    found = _number(shown)
    return int(found.lastindex or 0) if found else 0


def _year_in(said: _Said, wanted: Sequence[str]) -> int | None:
    return next((found for name in wanted if name in said and (found := values.year(said[name][1]))), None)


def _usual(title: str) -> str:
    """Returns the field of an amount that only the section's title names; empty if unknown."""
    return "due" if _is_due(title) else "billed" if _is_billed(title) else ""
