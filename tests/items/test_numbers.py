"""Decimals and large numbers of records are exact in MongoDB, and in what is exported."""

import csv
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from pyarrow import parquet
from pymongo.database import Database

from harvester.items import MediaContent, Provenance, Record
from harvester.items.property import Installment, TaxBill
from harvester.stores.export import export_records, query_of
from harvester.stores.tables import Format, TableFile, columns_of

SEEN = Provenance("https://shop.example/", datetime(2026, 1, 31, tzinfo=UTC), "shop")
PRICES = ["10.50", "9", "-0.0000000001", "123456789012345678901234.5"]


class Price(Record, frozen=True, kw_only=True):
    KIND = "price_of_a_test"
    COLLECTION = "prices_of_a_test"
    KEY = ("name",)

    name: str
    amount: Decimal | None = None
    number: int | None = None
    others: dict[str, Any] = {}  # noqa: RUF012


def price(name: str, amount: str | None) -> Price:
    return Price(name=name, amount=None if amount is None else Decimal(amount), provenance=SEEN)


def test_a_decimal_is_stored_as_a_number_without_losing_a_digit_and_one_that_is_too_long_is_refused() -> None:
    for amount in PRICES:
        assert price("a", amount).to_document()["amount"] == Decimal128(amount)
    assert "amount" not in price("a", None).to_document()
    with pytest.raises(ValueError, match=r"amount: '1{35}' .*\b34\b"):
        price("a", "1" * 35).to_document()


def test_it_is_compared_and_exported_as_a_number(tmp_path: Path, mongodb: Database[dict[str, Any]]) -> None:
    rows = [price(str(number), amount) for number, amount in enumerate([*PRICES, None])]
    mongodb[Price.COLLECTION].insert_many([row.to_document() for row in rows])
    query = query_of(Price, ["amount>9.5"], None)
    assert export_records(mongodb, Price, query, tmp_path / "large.csv") == 2
    for ending in ("csv", "jsonl", "parquet"):
        export_records(mongodb, Price, {}, tmp_path / f"all.{ending}")
    with (tmp_path / "all.csv").open() as file:
        assert [str(Decimal128(row["amount"])) for row in csv.DictReader(file) if row["amount"]] == [
            str(Decimal128(amount)) for amount in PRICES
        ]
    told = [json.loads(line).get("amount") for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [each and Decimal(each) for each in told] == [*map(Decimal, PRICES), None]
    read = parquet.read_table(tmp_path / "all.parquet")["amount"].to_pylist()
    assert read == [*map(Decimal, PRICES), None]


def test_a_large_whole_number_is_exported_as_a_number(tmp_path: Path, mongodb: Database[dict[str, Any]]) -> None:
    row = Price(name="a", number=2**40, others={"id": 2**40}, provenance=SEEN)
    mongodb[Price.COLLECTION].insert_one(row.to_document())
    for ending in ("csv", "jsonl", "parquet"):
        export_records(mongodb, Price, {}, tmp_path / f"all.{ending}")
    with (tmp_path / "all.csv").open() as file:
        (shown,) = csv.DictReader(file)
    assert (shown["number"], shown["others"]) == (str(2**40), f'{{"id":{2**40}}}')
    told = json.loads((tmp_path / "all.jsonl").read_text())
    assert (told["number"], told["others"]) == (2**40, {"id": 2**40})
    (kept,) = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert (kept["number"], kept["others"]) == (2**40, f'{{"id":{2**40}}}')


def test_a_decimal_that_parquet_cannot_hold_is_absent_there(tmp_path: Path) -> None:
    file = TableFile(tmp_path / "a.parquet", columns_of(Price), Format.PARQUET, zstd=False)
    file.table.write(
        [{"_id": "a", "amount": "1" * 34}, {"_id": "b", "amount": "no number"}, {"_id": "c", "amount": "7"}]
    )
    file.close()
    file.move()
    assert parquet.read_table(tmp_path / "a.parquet")["amount"].to_pylist() == [None, None, Decimal(7)]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("installments.number=2", True),
        ("installments.1.number=2", True),
        ("installments.number>2", False),
        ("installments.billed>=99.5", True),
        ("media_contents.bill.pages<3", True),
        ("media_contents.bill.text=7", True),
        ("labels.lot=007", True),
    ],
)
def test_values_within_a_field_are_compared_by_their_type(
    where: str, found: bool, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    """A number that is asked for as a text is in no record, and nobody would be told."""
    bill = TaxBill(
        jurisdiction="us-oh-x", fips="39001", parcel_id="1", parcel_id_normalized="1", bill="2025", currency="USD",
        installments=(Installment(number=1), Installment(number=2, billed=Decimal("99.50"))),
        media_contents={"bill": MediaContent(pages=2, text="7")}, labels={"lot": "007"}, provenance=SEEN,
    )  # fmt: skip
    mongodb[TaxBill.COLLECTION].insert_one(bill.to_document())
    assert export_records(mongodb, TaxBill, query_of(TaxBill, [where], None), tmp_path / "a.csv") == found
