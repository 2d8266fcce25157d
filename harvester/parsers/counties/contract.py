"""Checks that a page has the parts its records need before they are stored: an ok page never yields a hollow record.

Each parcel must show its owner, its address and its value, or a reason why the page does not show one. `explain` writes
these reasons into the records. `check` rejects a page that shows a part which no parser reads.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from harvester.exceptions import ParseError
from harvester.items.property import Assessment, CountyRecord, Property
from harvester.parsers.counties.guesses import OF_VALUES, guess
from harvester.parsers.counties.table import PageRows

OWNER, SITUS, VALUE = "owner_names", "situs_address", "values"
"""The parts that each parcel must show. The last one is stored in records apart from the parcel's: its assessments."""
PARTS = (OWNER, SITUS, VALUE)
CALLED: Mapping[str, str] = {OWNER: "who owns the parcel", SITUS: "where it is", VALUE: "what it is worth"}
NONE = "the page shows none"
NOTHING = "nothing: the page does not show it"
UNREAD = "nobody reads what may say it"
UNDATED_VALUE = "nothing: the page names no year of its values"
MAX_NAMED = 5
"""Maximum number of labels named in a message."""


class Contract(NamedTuple):
    """The parts that the pages of a platform must have."""

    always: frozenset[str] = frozenset()
    """The parts that each page shows, at least as a label with an empty value."""
    is_table: bool = False
    """True for the rows of a table: a row may be empty if the table has the column. If an unread column may hold a
    missing part, the part is reported as missing with that reason and the page is accepted, because a table has many
    columns."""


_CARD = Contract(frozenset([OWNER, SITUS]))
_WHOLE = Contract(frozenset(PARTS))
_TABLE = Contract(is_table=True)
CONTRACTS: Mapping[str, Contract] = {
    "arcgis": _TABLE,
    "beacon": Contract(),
    "devnet": _CARD,
    "eagleweb": _CARD,
    "esearch": _WHOLE,
    "iasworld": Contract(),
    "pacs": _WHOLE,
    "patriot": _WHOLE,
    "socrata": _TABLE,
    "vgsi": _WHOLE,
}
"""Platform -> the parts its pages must have. Platforms of other projects get `Contract()`: cards without required
parts."""


def explain(found: PageRows) -> PageRows:
    """Writes into each record why a part is missing, so that no part is missing without a reason."""
    valued = {record.parcel_id for record in found.records if isinstance(record, Assessment)}
    for at, record in enumerate(found.records):
        reasons = dict(_reasons(record, found, is_valued=record.parcel_id in valued))
        if new := {field: reason for field, reason in reasons.items() if field not in record.unread}:
            found.records[at] = replace(record, unread={**record.unread, **new})
    return found


def _reasons(record: CountyRecord, found: PageRows, *, is_valued: bool) -> Iterator[tuple[str, str]]:
    if isinstance(record, Property):
        lacking = [part for part in (OWNER, SITUS) if not getattr(record, part)]
        if not is_valued and not any(" of " in field for field in record.unread):
            lacking.append(VALUE)
        for part in lacking:
            likely = [label for label, value in record.others.items() if _may_be(label, value, part)]
            label = found.empty.get(part)
            if likely:
                yield part, f"{_named(likely)}: {UNREAD}"
            else:
                yield part, f"nothing beside {label!r}: {NONE}" if label else NOTHING
    elif isinstance(record, Assessment) and record.tax_year is None:
        yield "tax_year", UNDATED_VALUE


def check(found: PageRows, platform: str) -> None:
    """Raises ParseError when a page yields a hollow record, or shows a part of a parcel that no parser reads."""
    contract = CONTRACTS.get(platform, Contract())
    parcels = [record for record in found.records if isinstance(record, Property)]
    if not parcels:
        return
    missing = [part for part in PARTS if all(_is_missing(parcel, part) for parcel in parcels)]
    likely = {
        part: [label for label, said in found.unread.items() if _may_be(label, said.sample, part)] for part in missing
    }
    if not contract.is_table and any(likely.values()):
        named = _named(dict.fromkeys(label for of in likely.values() for label in of))
        raise ParseError(f"nobody reads {named}, which may say {_said([part for part in missing if likely[part]])}")
    absent = [part for part in missing if part not in found.empty]
    lacking = contract.always.intersection(absent) or _hollow(missing, absent, is_table=contract.is_table)
    if lacking:
        there_is = f"; there is {_named(found.unread)}" if found.unread else ""
        raise ParseError(f"the page does not say {_said(lacking)}{there_is}")


def _hollow(missing: Collection[str], absent: Collection[str], *, is_table: bool) -> Collection[str]:
    """Returns the missing parts that make a record hollow.

    A card is hollow without labels for owner and address, or when it has no value for any part. A table is hollow when
    it has no column for any part: its single rows may be empty.
    """
    if is_table:
        return PARTS if {*PARTS} <= {*absent} else ()
    if {OWNER, SITUS} <= {*absent}:
        return OWNER, SITUS
    return PARTS if {*PARTS} <= {*missing} else ()


def _is_missing(parcel: Property, part: str) -> bool:
    """Returns True if the parcel lacks the part. A part that the page withholds on purpose is not missing."""
    reason = parcel.unread.get(part, "")
    return reason.startswith("nothing") or reason.endswith(UNREAD)


def _may_be(label: str, value: object, part: str) -> bool:
    field = guess(label, value) if isinstance(value, str | int) else ""
    return field in OF_VALUES if part == VALUE else field == part


def _named(found: Collection[str]) -> str:
    shown = ", ".join(map(repr, list(found)[:MAX_NAMED]))
    return shown + (f" and {len(found) - MAX_NAMED:,} more" if len(found) > MAX_NAMED else "")


def _said(parts: Collection[str]) -> str:
    return " or ".join(CALLED[part] for part in PARTS if part in parts)
