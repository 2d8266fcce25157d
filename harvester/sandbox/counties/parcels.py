"""Made-up parcels, computed from their number: they take no memory and are always the same."""

from datetime import date, timedelta
from random import Random
from typing import NamedTuple

_LAST = ("QUIMBELL", "TARNOVICK", "OSTERLY", "PELLWORTH", "DA FONTEVA", "MARRISTO", "O'HENNEK", "VANDERLOOP", "WEXMOOR")
_FIRST = ("ADA", "BRUNO", "CLEO", "DORIAN", "EDITH", "FELIX", "GRETA", "HUGO", "IRIS", "JONAS R", "KIRA", "LEON T")
_STREETS = ("ALDER LN", "BIRCH HILL RD", "CANAL ST", "DOVER CT", "ELM ST", "FERRY RD", "GRANITE AVE", "HARBOR VIEW")
_USES = (
    ("101", "Single Family", "Cape"),
    ("104", "Two Family", "Duplex"),
    ("109", "Multiple Houses", "Conventional"),
    ("130", "Developable Land", ""),
)
TAX_YEAR = 2025
"""The newest tax year in the records."""


class SandboxSale(NamedTuple):
    """A sale of a parcel."""

    day: date
    price: int
    """Dollars; 0 where the deed names no price."""
    deed: str
    buyer: str
    seller: str


class Values(NamedTuple):
    """The values of a year, in dollars."""

    year: int
    land: int
    building: int

    @property
    def total(self) -> int:
        return self.land + self.building


class Parcel(NamedTuple):
    """A parcel in the assessor's records."""

    number: int
    owners: tuple[str, ...]
    house: int
    street: str
    mailing: tuple[str, str, str, str]
    """Street, city, state, zip code."""
    use_code: str
    use: str
    style: str
    """Style of the building; empty without a building."""
    built: int
    area: int
    """Living area in square feet."""
    rooms: int
    acres: str
    neighborhood: str
    values: tuple[Values, ...]
    """The values by year, the newest first."""
    sales: tuple[SandboxSale, ...]
    """The sales, the newest first."""

    @property
    def situs(self) -> str:
        return f"{self.house} {self.street}"


class Town:
    """A town whose parcels are numbered from 1."""

    def __init__(self, name: str, state: str, zip_code: str, parcels: int, seed: int = 1) -> None:
        self.name, self.state, self.zip_code = name, state, zip_code
        self.parcels = parcels
        self._seed = seed

    def parcel(self, number: int) -> Parcel | None:
        """Returns the parcel with this number, or None."""
        return self._made(number, Random(f"{self._seed} {self.name} {number}")) if 1 <= number <= self.parcels else None

    def all(self) -> list[Parcel]:
        return [found for number in range(1, self.parcels + 1) if (found := self.parcel(number))]

    def _made(self, number: int, random: Random) -> Parcel:
        last = random.choice(_LAST)
        owners = tuple(f"{last}, {first}" for first in random.sample(_FIRST, random.choice((1, 1, 2))))
        house, street = random.randrange(1, 400), random.choice(_STREETS)
        code, use, style = random.choice(_USES)
        land = random.randrange(400, 3_000) * 100
        building = random.randrange(900, 6_000) * 100 if style else 0
        values = [
            Values(TAX_YEAR - ago, land - ago * 2_500, max(0, building - ago * 6_200) if style else 0)
            for ago in range(3)
        ]
        return Parcel(
            number=number,
            owners=owners,
            house=house,
            street=street,
            mailing=(f"{house} {street}", self.name.upper(), self.state, self.zip_code),
            use_code=code,
            use=use,
            style=style,
            built=random.randrange(1790, 2020),
            area=random.randrange(600, 4_000),
            rooms=random.randrange(3, 12),
            acres=f"{random.randrange(5, 1_200) / 100:.2f}",
            neighborhood=str(1000 + random.randrange(12)),
            values=tuple(values),
            sales=tuple(_sales(owners[0], random)),
        )


def _sales(owner: str, random: Random) -> list[SandboxSale]:
    sales, buyer, day = [], owner, date(2024, 12, 1)
    for _ in range(random.randrange(0, 4)):
        seller = f"{random.choice(_LAST)}, {random.choice(_FIRST)}"
        day -= timedelta(random.randrange(200, 5_000))
        price = random.choice((0, random.randrange(400, 9_000) * 100))
        deed = f"{random.randrange(1_000, 5_000)}/{random.randrange(1, 999):04}"
        sales.append(SandboxSale(day, price, deed, buyer, seller))
        buyer = seller
    return sales
