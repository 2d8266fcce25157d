"""Guesses the field that an unread label may belong to, from its words and its value.

A guess never becomes a record: it rejects a page that lacks the field (`contract.py`), or is proposed to a person.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from harvester.parsers.counties import values
from harvester.parsers.counties.addresses import is_code
from harvester.parsers.counties.names import LineKind, line_kinds


class _Guess(NamedTuple):
    field: str
    words: re.Pattern[str]
    """Words that the label must have, in capitals with blanks between them."""
    without: re.Pattern[str]
    """Words that the label must not have."""
    is_one: Callable[[str], bool]
    """Returns True if the value may be a value of the field."""


MIN_VALUE = 100
"""Dollars. A smaller number beside a label for values is a rate or a code."""
MAX_ACRES = 1_000_000
_words = re.compile(r"[A-Z]+|\d+").findall
_split = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LETTERS = 4
_of_others = re.compile(
    r"\b(agent|attorney|assessor|collector|treasurer|appraiser|preparer|lender|mortgage|bank|contact|school|district)\b",
    re.IGNORECASE,
).search
"""Titles of sections about other people."""
is_of_parts = re.compile(
    r"building|improvement|dwelling|residential|commercial|structure|addition|feature|yard|\bland\b|permit",
    re.IGNORECASE,
).search
"""Titles of sections with values for parts of a parcel only."""
_is_bare = re.compile(r"(NAME|NAMES|NAME S|ADDRESS|ADDRESS LINE|ADDRESS 1)( 1)?").fullmatch
"""Labels that only the title of their section makes distinct."""
_of_owner = re.compile(r"\b(owner|taxpayer|mailing|mail)", re.IGNORECASE).search
_of_place = re.compile(r"\b(parcel|property|situs|site|location|general|summary)\b", re.IGNORECASE).search
_of_values = re.compile(
    r"(?:\d{4}|\W|current|certified|working|proposed|preliminary|tentative|final|property|parcel|total|estimated|real"
    r"|market|assessed|appraised|taxable|tax year|roll|summary)*\b(?:values?|valuations?|assessments?|appraisals?)\b"
    r"(?:\W|summary|history|information|info|details?)*",
    re.IGNORECASE,
).fullmatch
"""Titles of sections whose amounts all belong to the parcel, even with unknown labels."""
_is_shown_as_money = re.compile(r"\(?\$\s*\d[\d,.]*\)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?").fullmatch
_is_no_value = re.compile(
    r"\b(TAX(?:ES)?|RATE|LEVY|FEES?|EXEMPT\w*|DEDUCT\w*|CREDITS?|CAP|LOSS|SQ\w*|ACRE\w*|AREA|DATE|PRICE|SALES?)\b"
).search
_OTHERS = r"(PRIOR|PREVIOUS|FORMER|OLD|LAST|SUBDIV\w*|PLAT|STREET|ROAD|SCHOOL|DISTRICT|LENDER|MORTGAGE|BANK|AGENT)"


def _is_name(text: str) -> bool:
    """Returns True for a name: two words or more, and no word of a legend."""
    return len(text.split()) > 1 and sum(map(str.isalpha, text)) >= _LETTERS and line_kinds([text]) == [LineKind.NAME]


def _is_address(text: str) -> bool:
    """Returns True for a house number with a street; `6 - NEIGHBORHOOD OR SPOT` is a code."""
    return (
        not is_code(text)
        and len(text.split()) > 1
        and any(map(str.isdigit, text))
        and sum(map(str.isalpha, text)) >= _LETTERS
    )


def _is_amount(text: str) -> bool:
    amount = values.money(text)
    return amount is not None and amount >= MIN_VALUE and values.year(text) is None


def _is_acres(text: str) -> bool:
    area = values.number(re.sub(r"(?i)\s*(acres?|ac)\.?$", "", text))
    return area is not None and 0 < area < MAX_ACRES


def _is_year(text: str) -> bool:
    return values.year(text) is not None


def _is_date(text: str) -> bool:
    return values.iso_date(text) is not None


def _is_text(text: str) -> bool:
    return bool(values.text(text)) and not values.is_nothing(text)


def _guess(field: str, words: str, without: str, is_one: Callable[[str], bool]) -> _Guess:
    return _Guess(field, re.compile(words), re.compile(without or "(?!)"), is_one)


_GUESSES = (
    _guess(
        "mailing_address", r"\b(MAIL\w*|(OWNERS?|TAXPAYERS?|BILLING) (STREET )?ADDRESS)\b", "E ?MAIL|NAME", _is_text
    ),
    _guess(
        "owner_names",
        r"\b(OWN(ER|ERS|RS)?\b.*|TAXPAYERS?|TITLE ?HOLDERS?|DEED ?HOLDERS?)\b",
        rf"\b{_OTHERS}\b|\b(OCC\w*|TYPE|CODE|STATUS|ADDR\w*|CITY|STATE|ZIP|PHONE|PERCENT|PCT|INTEREST|CREDIT|SINCE|DATE|SHIP)\b",
        _is_name,
    ),
    _guess(
        "situs_address",
        r"\b(SITUS|SITE|PHYSICAL|PROPERTY|PARCEL|PREMISES?|STREET|LOCATION)\b",
        rf"\b{_OTHERS}\b|\b(MAIL\w*|OWNERS?|TAX\w*|CITY|STATE|ZIP|CLASS|USE|TYPE|ID|NUMBER|CODE|LEGAL|DESC\w*|NAME|MAP)\b",
        _is_address,
    ),
    _guess("tax_year", r"\b(TAX|ROLL|ASSESSMENT|VALUATION|VALUE) YEAR\b|^YEAR$", "", _is_year),
    _guess("year_built", r"\b(YEAR|YR) (BUILT|BLT|CONSTRUCTED)\b", "EFF", _is_year),
    _guess("sale_date", r"\b(SALE|TRANSFER|CONVEYANCE|DEED|SOLD)\b.*\b(DATE|DT|ON)\b", "", _is_date),
    _guess("sale_price", r"\b(SALE|SALES|TRANSFER|CONVEYANCE)\b.*\b(PRICE|AMOUNT|AMT|CONSIDERATION)\b", "", _is_amount),
    _guess("acres", r"\bAC(RES?|REAGE)?\b", "", _is_acres),
    _guess(
        "market_land_value",
        r"\b(MARKET|APPRAISED|FMV)\b.*\bLAND\b|\bLAND\b.*\b(MARKET|APPRAISED|FMV)\b",
        r"\bSQ\b",
        _is_amount,
    ),
    _guess("land_value", r"\bLAND\b.*\b(VALUE|VAL|ASSESSMENT)\b", r"\b(SQ|USE|AREA|EXEMPT\w*)\b", _is_amount),
    _guess(
        "improvement_value",
        r"\b(BUILDINGS?|BLDG|IMPROVEMENTS?|IMP|IMPR)\b.*\b(VALUE|VAL|ASSESSMENT)\b",
        r"\b(SQ|USE|AREA|EXEMPT\w*)\b",
        _is_amount,
    ),
    _guess("taxable_value", r"\bTAXABLE\b", r"\b(LAND|BUILDINGS?|USE|SALE)\b", _is_amount),
    _guess(
        "assessed_value", r"\b(ASSESSED|ASSESSMENT|ASMT|ASSD)\b", r"\b(SPECIAL|FEE|TAX|EXEMPT\w*|AREA)\b", _is_amount
    ),
    _guess("market_value", r"\b(MARKET|FAIR|JUST|FULL|APPRAISED|APPRAISAL)\b", r"\b(TAX|EXEMPT\w*|FEE)\b", _is_amount),
    _guess("total_value", r"\bTOTAL\b.*\b(VALUE|VAL)\b|^(VALUE|TOTAL VALUE)$", r"\b(TAX|EXEMPT\w*)\b", _is_amount),
    _guess("legal_description", r"\bLEGAL\b", r"\b(AC\w*|CLASS)\b", _is_text),
    _guess(
        "use_code", r"\b(LAND|PROPERTY) ?(USE|CLASS|TYPE)( CODE)?\b|\bUSE CODE\b|\bLUC\b", r"\bDESC\w*|VALUE", _is_text
    ),
    _guess("zoning", r"\bZON(E|ING)\b", "FLOOD", _is_text),
    _guess("neighborhood", r"\b(NEIGHBORHOOD|NBHD)\b", "", _is_text),
    _guess("subdivision", r"\bSUBDIV\w*\b", "", _is_text),
)
"""The guesses, in the order they are tried."""
OF_VALUES = frozenset(
    [
        "market_land_value",
        "land_value",
        "improvement_value",
        "taxable_value",
        "assessed_value",
        "market_value",
        "total_value",
    ]
)


def guess(label: str, value: str | int) -> str:
    """Returns the field that a label may belong to; empty if none is likely. `label`: section title, `: `, label."""
    title, _, name = label.rpartition(": ")
    said = " ".join(_words(_split.sub(" ", name).upper()))
    if _of_others(title):
        return ""
    if _is_bare(said):
        return _below(title, said, str(value))
    for each in _GUESSES:
        if each.words.search(said) and not each.without.search(said):
            is_of_part = each.field in OF_VALUES and is_of_parts(title)
            return each.field if each.is_one(str(value)) and not is_of_part else ""
    is_amount = _is_shown_as_money(str(value).strip()) and _is_amount(str(value))
    return "total_value" if is_amount and _of_values(title) and not _is_no_value(said) else ""


def _below(title: str, said: str, text: str) -> str:
    if said.startswith("NAME"):
        return "owner_names" if _of_owner(title) and _is_name(text) else ""
    if _of_owner(title):
        return "mailing_address"
    return "situs_address" if _of_place(title) and _is_address(text) else ""
