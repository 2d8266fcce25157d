"""The records of property: parcels, their values and their sales, as a county, a town or a state publishes them.

Field names are terms of the trade. A fact that a source does not state is absent, and never 0 or an empty text.
"""

import re
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar
from urllib.parse import quote

from msgspec import Struct

from harvester.items.base import Media, Record

UNDATED = "undated"
"""Stands in a key for a year or a date that the source does not state."""
_formatting = re.compile(r"[^0-9A-Z]+")


def normalized(parcel_id: str) -> str:
    """Returns the letters and digits of a parcel's number in capitals, to join records by. Leading zeros stay."""
    return _formatting.sub("", parcel_id.upper())


class CountyRecord(Record, frozen=True, kw_only=True):
    """The base of property records. It names the parcel and its jurisdiction."""

    jurisdiction: str
    """Id of the jurisdiction in the registry of sites: `us-oh-franklin`."""
    fips: str
    """Census code of the jurisdiction: 2 digits of a state, 5 of a county, 10 of a town."""
    parcel_id: str
    """As the source writes it, without surrounding blanks. Blanks inside it and leading zeros are significant."""
    parcel_id_normalized: str
    """The result of `normalized`."""
    labels: dict[str, str] = {}  # noqa: RUF012
    """Source columns by field, with the source's own names. Several columns are joined by ` + `."""
    unread: dict[str, str] = {}  # noqa: RUF012
    """Values that were not read because their meaning is uncertain, each with the reason, by field.

    For example `02/30/2020: there is no such day`.
    """


class Property(CountyRecord, frozen=True, kw_only=True):
    """A parcel as the assessor's roll or the parcel map describes it."""

    KIND = "property"
    COLLECTION = "properties"
    KEY = ("jurisdiction", "parcel_id")
    VERSION = "tax_year"
    INDEXES: ClassVar = (("jurisdiction", "parcel_id_normalized"), ("fips",))

    tax_year: int | None = None
    """Year of the roll that describes the parcel. If there are several, the latest stays."""
    alt_parcel_ids: dict[str, str] = {}  # noqa: RUF012
    """Other official numbers of the parcel, by column."""
    owner_names: tuple[str, ...] = ()
    """As shown, in their order."""
    mailing_address: str | None = None
    """Address of the owner or of the tax bill, as shown, in one line."""
    situs_address: str | None = None
    """Location of the property, as shown."""
    situs_parts: dict[str, str] = {}  # noqa: RUF012
    """Parts of the situs address, if it can be split reliably: AddressNumber, StreetName and so on."""
    situs_city: str | None = None
    situs_zip: str | None = None
    legal_description: str | None = None
    use_code: str | None = None
    """Class of use, as defined by the county or the state."""
    use_description: str | None = None
    zoning: str | None = None
    subdivision: str | None = None
    neighborhood: str | None = None
    """Area, as defined by the assessor."""
    acres: float | None = None
    """As stated in the deed or on the roll."""
    gis_acres: float | None = None
    """As computed from the map."""
    year_built: int | None = None
    effective_year_built: int | None = None
    living_area_sqft: float | None = None
    others: dict[str, Any] = {}  # noqa: RUF012
    """Columns that are read into no field, with their unchanged values. Columns without a value are left out."""


class Assessment(CountyRecord, frozen=True, kw_only=True):
    """The values of a parcel by one roll. Each field names the basis of the value; money is in `currency`."""

    KIND = "assessment"
    COLLECTION = "assessments"
    KEY = ("jurisdiction", "roll", "parcel_id")
    INDEXES: ClassVar = (("jurisdiction", "tax_year"), ("jurisdiction", "parcel_id_normalized"))

    roll: str
    """Year and stage, `2024` or `2024-certified`; `undated` when the source names no year."""
    tax_year: int | None = None
    """Year of the roll, not the year of payment."""
    stage: str = ""
    """`mailed`, `certified` or `board`, if the source publishes several stages in a year."""
    currency: str
    market_value: Decimal | None = None
    """Full value: market, fair, just."""
    market_land_value: Decimal | None = None
    market_improvement_value: Decimal | None = None
    appraised_value: Decimal | None = None
    """In Texas, the market value less the reduction for a special use."""
    assessed_value: Decimal | None = None
    """Value after the state's ratio or cap."""
    assessed_land_value: Decimal | None = None
    assessed_improvement_value: Decimal | None = None
    taxable_value: Decimal | None = None
    """Assessed value less exemptions."""
    total_value: Decimal | None = None
    """Value on a basis that the source does not name. This also holds for the next two fields."""
    land_value: Decimal | None = None
    improvement_value: Decimal | None = None
    ag_value: Decimal | None = None
    """Value by agricultural or other current use."""
    exemption_value: Decimal | None = None


class Sale(CountyRecord, frozen=True, kw_only=True):
    """A transfer of a parcel."""

    KIND = "sale"
    COLLECTION = "sales"
    KEY = ("jurisdiction", "transfer", "parcel_id")
    INDEXES: ClassVar = (("jurisdiction", "sale_date"), ("jurisdiction", "parcel_id_normalized"))

    transfer: str
    """Date (or year) and number of the deed, as far as they are stated. It separates the sales of a parcel."""
    sale_date: date | None = None
    sale_year: int | None = None
    recording_date: date | None = None
    currency: str
    sale_price: Decimal | None = None
    """As stated. 0 often means that the price is unknown, or not a market price."""
    grantor: str | None = None
    """The seller."""
    grantee: str | None = None
    """The buyer."""
    deed_type: str | None = None
    book: str | None = None
    page: str | None = None
    instrument_number: str | None = None
    qualification: str | None = None
    """The assessor's judgement of the sale: at arm's length, or why not."""


class Installment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A part of a tax bill with its own due date."""

    number: int
    """Counts from 1, in the order of the year."""
    due_date: date | None = None
    billed: Decimal | None = None
    paid: Decimal | None = None
    due: Decimal | None = None


class TaxBill(CountyRecord, frozen=True, kw_only=True):
    """The amounts due for a parcel by the bill of a year. Estimates do not count as bills."""

    KIND = "tax_bill"
    COLLECTION = "tax_bills"
    KEY = ("jurisdiction", "bill", "parcel_id")
    INDEXES: ClassVar = (("jurisdiction", "tax_year"), ("jurisdiction", "parcel_id_normalized"))
    MEDIA_PATH = re.compile(r"[\w.-]+/tax_bills/\w+/[\w.~% ,'&()+=-]+\.pdf", re.ASCII)

    bill: str
    """Year that the source uses as the name of the bill; `undated` if it names no year."""
    tax_year: int | None = None
    """Year of the roll that the bill is based on."""
    pay_year: int | None = None
    """Year of payment, if the source states it. It is often the year after the roll."""
    currency: str
    billed: Decimal | None = None
    """Amount for the year, for all taxing bodies."""
    paid: Decimal | None = None
    """Never negative, however the source writes payments."""
    due: Decimal | None = None
    """Amount that is still to be paid."""
    delinquent: Decimal | None = None
    """Amount owed for earlier years."""
    installments: tuple[Installment, ...] = ()
    pdf_url: str | None = None
    """Address of the bill itself, if the page links to it."""

    def media(self) -> list[Media]:
        """Returns the bill itself."""
        if not self.pdf_url:
            return []
        name = quote(
            self.parcel_id, safe=" ,'&()+="
        )  # other characters are not allowed in file names, at least on Windows
        path = f"{self.jurisdiction}/tax_bills/{self.bill}/{name}.pdf"
        return [Media(self.pdf_url, path, "bill")]


READ_FIELDS = frozenset(
    [
        *(field for kind in (Property, Assessment, Sale) for field in kind.__struct_fields__),
        *("co_owner", "mailing_city", "mailing_state", "mailing_zip"),
    ]
).difference(
    CountyRecord.__struct_fields__,
    ("situs_parts", "others", "roll", "stage", "currency", "transfer"),
) | {"parcel_id"}
"""Fields, and parts of fields, that a label of a page may name."""
