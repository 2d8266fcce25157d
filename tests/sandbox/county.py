"""A county that is made up: its parcels, and the records that a crawl of it must lead to.

The truth is made without the parsers of harvester: what they read is compared with it.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

Document = dict[str, Any]
_NAMES = ("ADAMS", "O'BRIEN", "GARCIA", "NULL", "DE LA CRUZ", "SMITH", "MÜLLER", "WU")
_STREETS = ("MAIN ST", "22 MILE RD NW", "OLD POST RD", "ST JOHN'S AVE", "HWY 61 #4")


class Parcel(NamedTuple):
    """As the assessor knows it."""

    parcel_id: str
    town: str
    owners: tuple[str, ...]
    address: str | None
    use_code: str
    acres: float
    tax_year: int
    market: Decimal
    land: Decimal
    taxable: Decimal | None
    sold: date | None
    price: Decimal | None
    deed: str | None
    flood_zone: str | None
    """A column that no field is read from."""


def changed(page: str, changes: Mapping[str, str]) -> str:
    """A page in which each of these takes the place of the other, all at once."""
    return re.sub("|".join(map(re.escape, changes)), lambda found: changes[found[0]], page) if changes else page


class County:
    """So many parcels. Numbers have leading zeros and blanks that mean something; what is unknown is absent."""

    def __init__(self, parcels: int, seed: int = 1) -> None:
        self.parcels = [_parcel(number, Random(f"{seed} {number}")) for number in range(parcels)]

    def truth(self, jurisdiction: str, only: str = "") -> dict[str, dict[str, Document]]:
        """Collection -> `_id` -> what of the document is the county's own. `only`: of one town."""
        found: dict[str, dict[str, Document]] = {"properties": {}, "assessments": {}, "sales": {}}
        for parcel in self.parcels:
            if only in ("", parcel.town):
                for collection, key, document in _records(parcel, jurisdiction):
                    found[collection][key] = document
        return found


def _parcel(number: int, random: Random) -> Parcel:
    land = Decimal(random.randrange(1_000, 90_000_00)) / 100
    sold = date(1958, 1, 1) + timedelta(random.randrange(25_000)) if random.random() < 0.7 else None
    owners = tuple(f"{random.choice(_NAMES)} {number}" for _ in range(random.choice((1, 1, 2))))
    return Parcel(
        parcel_id=f"0{number // 1000:02}-{number % 1000:03}  {random.choice('AB')}0",
        town=random.choice(("Ada", "Byron")),
        owners=owners if random.random() < 0.95 else (),
        address=f"{random.randrange(1, 9999)} {random.choice(_STREETS)}" if random.random() < 0.9 else None,
        use_code=f"0{random.randrange(10, 99)}",
        acres=random.randrange(1, 4000) / 100,
        tax_year=2025,
        market=land + random.randrange(0, 900_000),
        land=land,
        taxable=Decimal(random.randrange(0, 500_000)) if random.random() < 0.8 else None,
        sold=sold,
        price=Decimal(random.choice((0, random.randrange(1, 2_000_000)))) if sold else None,
        deed=f"2019-{number:06}" if sold and random.random() < 0.5 else None,
        flood_zone=random.choice((None, "X", "AE")),
    )


def _records(parcel: Parcel, jurisdiction: str) -> Iterator[tuple[str, str, Document]]:
    of = {"jurisdiction": jurisdiction, "parcel_id": parcel.parcel_id}
    yield (
        "properties",
        f"{jurisdiction} {parcel.parcel_id}",
        _without_unknown(
            of,
            owner_names=list(parcel.owners) or None,
            situs_address=parcel.address,
            use_code=parcel.use_code,
            acres=parcel.acres,
            tax_year=parcel.tax_year,
            flood_zone=parcel.flood_zone,
        ),
    )
    yield (
        "assessments",
        f"{jurisdiction} {parcel.tax_year} {parcel.parcel_id}",
        _without_unknown(
            of,
            tax_year=parcel.tax_year,
            currency="USD",
            market_value=parcel.market,
            land_value=parcel.land,
            taxable_value=parcel.taxable,
        ),
    )
    if parcel.sold:
        transfer = f"{parcel.sold}/{parcel.deed}" if parcel.deed else f"{parcel.sold}"
        yield (
            "sales",
            f"{jurisdiction} {transfer} {parcel.parcel_id}",
            _without_unknown(
                of,
                sale_date=parcel.sold.isoformat(),
                currency="USD",
                sale_price=parcel.price,
                instrument_number=parcel.deed,
            ),
        )


def _without_unknown(of: Document, **fields: Any) -> Document:
    return of | {name: value for name, value in fields.items() if value is not None}
