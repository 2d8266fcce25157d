"""The records of property: what a county, a town or a state publishes of its parcels, their values and their sales.

Names of fields are those of the trade. What a source does not say is absent, and never 0 or an empty text.
"""

import re
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar
from urllib.parse import quote

from msgspec import Struct

from harvester.items.base import Media, Record

UNDATED = "undated"
"""Stands in a key for the year or the date that the source does not say."""
_formatting = re.compile(r"[^0-9A-Z]+")


def normalized(parcel_id: str) -> str:
    """Letters and digits of a parcel's number, in capitals: to join by, and for nothing else. Leading zeros stay."""
    return _formatting.sub("", parcel_id.upper())


class CountyRecord(Record, frozen=True, kw_only=True):
    """What every one of them says: of which parcel of which jurisdiction it is."""

    jurisdiction: str
    """Id of its entry in the registry of sites: `us-oh-franklin`."""
    fips: str
    """Census code of the jurisdiction: 2 digits of a state, 5 of a county, 10 of a town."""
    parcel_id: str
    """As the source writes it, blanks around it taken off. Blanks in it mean something, and so do leading zeros."""
    parcel_id_normalized: str
    """See `normalized`."""
    labels: dict[str, str] = {}  # noqa: RUF012
    """Field -> the column that it was read from, as the source calls it; several are joined by ` + `."""
    unread: dict[str, str] = {}  # noqa: RUF012
    """Field that the source shows and whose meaning is not certain -> what it shows, and why it was not read:
    `02/30/2020: there is no such day`."""


class Property(CountyRecord, frozen=True, kw_only=True):
    """A parcel as the assessor's roll, or the map of parcels, describes it."""

    KIND = "property"
    COLLECTION = "properties"
    KEY = ("jurisdiction", "parcel_id")
    VERSION = "tax_year"
    INDEXES: ClassVar = (("jurisdiction", "parcel_id_normalized"), ("fips",))

    tax_year: int | None = None
    """Of the roll that describes it so. Of several the latest stays."""
    alt_parcel_ids: dict[str, str] = {}  # noqa: RUF012
    """Other official numbers: column -> number."""
    owner_names: tuple[str, ...] = ()
    """As shown, in their order."""
    mailing_address: str | None = None
    """Of the owner or of the tax bill, as shown, in one line."""
    situs_address: str | None = None
    """Where the property is, as shown."""
    situs_parts: dict[str, str] = {}  # noqa: RUF012
    """The same taken apart, where that is clear: AddressNumber, StreetName and so on."""
    situs_city: str | None = None
    situs_zip: str | None = None
    legal_description: str | None = None
    use_code: str | None = None
    """The county's or the state's class of use."""
    use_description: str | None = None
    zoning: str | None = None
    subdivision: str | None = None
    neighborhood: str | None = None
    """The assessor's area."""
    acres: float | None = None
    """As stated in the deed or on the roll."""
    gis_acres: float | None = None
    """As computed from the map."""
    year_built: int | None = None
    effective_year_built: int | None = None
    living_area_sqft: float | None = None
    others: dict[str, Any] = {}  # noqa: RUF012
    """Columns that no field was read from -> their values as they came; those without a value are left out."""


class Assessment(CountyRecord, frozen=True, kw_only=True):
    """What a parcel is worth by one roll. Each value names its basis; money is in `currency`."""

    KIND = "assessment"
    COLLECTION = "assessments"
    KEY = ("jurisdiction", "roll", "parcel_id")
    INDEXES: ClassVar = (("jurisdiction", "tax_year"), ("jurisdiction", "parcel_id_normalized"))

    roll: str
    """Year and stage, `2024` or `2024-certified`; `undated` when the source names no year."""
    tax_year: int | None = None
    """Of the roll, which is not the year of payment."""
    stage: str = ""
    """`mailed`, `certified` or `board`, where the source publishes several in a year."""
    currency: str
    market_value: Decimal | None = None
    """Full value: market, fair, just."""
    market_land_value: Decimal | None = None
    market_improvement_value: Decimal | None = None
    appraised_value: Decimal | None = None
    """Texas: market value less what a special use takes off."""
    assessed_value: Decimal | None = None
    """After the state's ratio, or its cap."""
    assessed_land_value: Decimal | None = None
    assessed_improvement_value: Decimal | None = None
    taxable_value: Decimal | None = None
    """Assessed value less exemptions."""
    total_value: Decimal | None = None
    """On a basis that the source does not name; so are the next two."""
    land_value: Decimal | None = None
    improvement_value: Decimal | None = None
    ag_value: Decimal | None = None
    """By agricultural or other current use."""
    exemption_value: Decimal | None = None


class Sale(CountyRecord, frozen=True, kw_only=True):
    """A transfer of a parcel."""

    KIND = "sale"
    COLLECTION = "sales"
    KEY = ("jurisdiction", "transfer", "parcel_id")
    INDEXES: ClassVar = (("jurisdiction", "sale_date"), ("jurisdiction", "parcel_id_normalized"))

    transfer: str
    """Date (or year) and number of the deed, as far as the source says them: it tells the sales of a parcel apart."""
    sale_date: date | None = None
    sale_year: int | None = None
    recording_date: date | None = None
    currency: str
    sale_price: Decimal | None = None
    """As stated. 0 often means that it is unknown, or no price of the market."""
    grantor: str | None = None
    """The seller."""
    grantee: str | None = None
    """The buyer."""
    deed_type: str | None = None
    book: str | None = None
    page: str | None = None
    instrument_number: str | None = None
    qualification: str | None = None
    """What the assessor says of the sale: at arm's length, or why not."""


class Installment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A part of a tax bill that is due on a day of its own."""

    number: int
    """From 1, as they come in the year."""
    due_date: date | None = None
    billed: Decimal | None = None
    paid: Decimal | None = None
    due: Decimal | None = None


class TaxBill(CountyRecord, frozen=True, kw_only=True):
    """What is to be paid for a parcel by the bill of a year. Estimates are none."""

    KIND = "tax_bill"
    COLLECTION = "tax_bills"
    KEY = ("jurisdiction", "bill", "parcel_id")
    INDEXES: ClassVar = (("jurisdiction", "tax_year"), ("jurisdiction", "parcel_id_normalized"))
    MEDIA_PATH = re.compile(r"[\w.-]+/tax_bills/\w+/[\w.~% ,'&()+=-]+\.pdf", re.ASCII)

    bill: str
    """The year that the source names it by; `undated` when it names none."""
    tax_year: int | None = None
    """Of the roll that it was made from."""
    pay_year: int | None = None
    """In which it is paid, where the source says that: often the year after."""
    currency: str
    billed: Decimal | None = None
    """For the year, by all who tax."""
    paid: Decimal | None = None
    """Never negative, however the source writes payments."""
    due: Decimal | None = None
    """What is left to be paid."""
    delinquent: Decimal | None = None
    """Of years before."""
    installments: tuple[Installment, ...] = ()
    pdf_url: str | None = None
    """Where the bill itself is, if the page leads to one."""

    def media(self) -> list[Media]:
        """The bill itself."""
        if not self.pdf_url:
            return []
        name = quote(
            self.parcel_id, safe=" ,'&()+="
        )  # other characters are none for a file's name, at least on Windows
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
"""What a label of a page may say: fields, and parts of them."""
