"""Items that are no records become records with the key that is named, or lose nothing when they cannot."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any

import attrs
import pytest
from pydantic import BaseModel, HttpUrl
from scrapy import Field, Item

from harvester.exceptions import InvalidRecordError
from harvester.items import RECORDS
from harvester.items.other import check_collection, item_kind, item_type, know_collections
from tests.parsers.cases import PROVENANCE


@dataclass
class Sale:
    sku: str
    price: Decimal


@attrs.define
class Loose:
    sku: str
    price: Decimal


class Checked(BaseModel):
    sku: str
    price: Decimal


class Declared(Item):
    sku = Field()
    price = Field()


def stored(item: Any, *named: str) -> dict[str, Any]:
    document = item_type("a-shop").of(item, named, PROVENANCE).to_document()
    assert document.pop("provenance")["url"] == PROVENANCE.url
    return document


@pytest.mark.parametrize("kind", [dict, Sale, Loose, Checked, Declared])
def test_an_item_of_each_type_is_a_document_under_its_key(kind: type) -> None:
    expected = {"_id": "7", "sku": "7", "price": "1.50"}
    assert stored(kind(sku="7", price=Decimal("1.50")), "sku") == expected


def test_without_a_named_key_it_is_the_items_own_id_or_a_digest_of_all_fields() -> None:
    assert stored({"_id": "mine", "a": 1}) == {"_id": "mine", "a": 1}
    one, other = stored({"a": 1, "b": {"c": 2}}), stored({"b": {"c": 2}, "a": 1})
    assert one["_id"] == other["_id"] != stored({"a": 1, "b": {"c": 3}})["_id"]
    assert len(one["_id"]) == 32


def test_an_id_that_is_not_said_is_no_key_that_all_such_items_share() -> None:
    one, other = stored({"_id": None, "a": 1}), stored({"_id": None, "a": 2})
    assert len({one["_id"], other["_id"], "None"}) == 3


def test_sets_in_another_order_are_the_same_document() -> None:
    """Each process has an order of its own for sets of texts; for numbers it is that in which they came."""
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other)
    assert stored({"b": one, "a": 1}) == stored({"b": other, "a": 1})
    assert sorted(stored({"b": {"x", 1}})["b"], key=str) == [1, "x"], "what cannot be sorted is stored all the same"
    assert list(stored({"b": one, "a": 1})) == ["b", "a", "_id"]


def test_several_fields_make_a_key_that_no_others_make() -> None:
    assert stored({"a": "x", "b": "y z"}, "a", "b")["_id"] == "x y z"
    with pytest.raises(InvalidRecordError, match="'x y z'"):
        stored({"a": "x y", "b": "z"}, "a", "b")


def test_values_of_types_made_of_pythons_own_are_those() -> None:
    """BeautifulSoup and lxml give texts of a type of their own, numpy numbers."""
    given = {"s": "a", "i": 3, "f": 1.5, "b": b"x"}
    values = {name: type("Own", (type(value),), {})(value) for name, value in given.items()}
    document = stored(values | {"among": [values["s"]]}, "s")
    assert document == {"_id": "a", "s": "a", "i": 3, "f": 1.5, "b": b"x", "among": ["a"]}
    assert {type(document[name]) for name in "sifb"} == {str, int, float, bytes}


def test_addresses_and_paths_are_texts() -> None:
    given = {"page": HttpUrl("https://a.example/b"), "file": PurePosixPath("a/b"), "host": ip_address("10.0.0.1")}
    assert stored({"_id": "7", **given}) == {
        "_id": "7",
        "page": "https://a.example/b",
        "file": "a/b",
        "host": "10.0.0.1",
    }


def test_what_bson_lacks_is_text_and_what_it_has_stays() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    item = {"at": at, "day": date(2026, 1, 2), "tags": {"x"}, "bytes": b"\xff", 1: None, "in": [Sale("7", Decimal(2))]}
    document = stored(item, "day")
    assert document["at"] == at
    assert document["day"] == document["_id"] == "2026-01-02"
    assert (document["tags"], document["bytes"], document["1"]) == (["x"], b"\xff", None)
    assert document["in"] == [{"sku": "7", "price": "2"}]


@pytest.mark.parametrize(
    ("item", "named", "said"),
    [
        ("text", (), " str "),
        ({"a": 1}, ("sku",), "'sku'"),
        ({"sku": None}, ("sku",), "'sku'"),
        ({"sku": "a\nb"}, ("sku",), "key"),
        ({"a": object()}, (), "stored"),
        ({"provenance": "mine"}, (), "'provenance'"),
        ({"$where": 1}, (), "'.where'.* MongoDB"),
        ({"a": "\ud800"}, (), "stored"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_reason(item: Any, named: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidRecordError, match=said):
        item_type("a-shop").of(item, named, PROVENANCE)


@pytest.mark.parametrize(
    ("spider", "collection"),
    [
        ("a-shop", "a_shop"),
        ("Shop.example", "shop_example"),
        ("posts", "posts_items"),
        ("post", "post_items"),
        ("jobs", "jobs_items"),
        ("item", "item_items"),
        ("7up", "items_7up"),
        ("Ñ", "n_3a11228c"),
    ],
)
def test_the_collection_is_named_after_the_spider_and_is_nobody_elses(spider: str, collection: str) -> None:
    assert collection == item_type(spider).COLLECTION
    assert item_type(spider) is item_type(spider)


def test_other_processes_know_of_them_by_the_names_of_collections() -> None:
    know_collections(["an_old_shop", "posts", "jobs", "system.views", "Odd-Name"])
    assert RECORDS["an_old_shop"].FIELDS_VARY
    assert RECORDS["post"].COLLECTION == "posts"
    assert not {"posts", "jobs", "system.views", "Odd-Name"} & RECORDS.keys()


def test_spiders_share_no_collection_whatever_letters_their_names_have() -> None:
    names = ["новости", "погода", "新闻", "café", "cafe", "a" * 51, "a" * 50 + "b", "日本-1", "中国-1", "__", "news"]
    kinds = [item_kind(name) for name in names]
    assert len(set(kinds)) == len(names)
    assert kinds[-1] == "news"
    for kind in kinds:
        check_collection(kind)
