"""The base of records: it knows keys, provenance and pictures, and nothing of any site."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from inspect import getsource
from typing import Any

import pytest

from harvester.exceptions import InvalidRecordError, UsageError
from harvester.items import RECORDS, Media, Provenance, Record, base

PAGE = Provenance("https://books.example/1", datetime(2026, 1, 2, tzinfo=UTC), "books")


class Volume(Record, frozen=True, kw_only=True):
    """A record with as little as there must be."""

    KIND = "volume"
    COLLECTION = "volumes"
    KEY = ("shelf", "number")

    shelf: str
    number: int
    title: str | None = None
    price: float = 0
    page_count: int = 0
    cover_url: str = ""


@pytest.fixture
def registry() -> Iterator[None]:
    """RECORDS as it was, afterwards."""
    before = dict(RECORDS)
    yield
    RECORDS.clear()
    RECORDS.update(before)


def volume(**fields: Any) -> Volume:
    return Volume(**{"shelf": "a", "number": 7, "provenance": PAGE, **fields})


def define(name: str = "Another", **said: Any) -> type[Record]:
    made: type[Record] = type(Record)(name, (Record,), {"__module__": __name__, "__annotations__": {}, **said})  # type: ignore[misc]
    return made


def test_the_base_names_no_site() -> None:
    assert not re.search(r"\bdids?\b|at://|bluesky", getsource(base), re.IGNORECASE)


def test_a_record_type_registers_itself() -> None:
    assert RECORDS["volume"] is Volume
    assert Volume.PLURAL == "volumes"


def test_a_family_is_no_record_type(registry: None) -> None:
    before = dict(RECORDS)
    family = define("Family", KEY=("number",))
    assert before == RECORDS
    assert family.KEY == ("number",)


def test_plural_comes_from_the_collection_unless_it_is_said(registry: None) -> None:
    saying: dict[str, Any] = {"KEY": ("raw",)}
    assert define(KIND="tax_notice", COLLECTION="tax_notices", **saying).PLURAL == "tax notices"
    assert define(KIND="person", COLLECTION="persons", PLURAL="people", **saying).PLURAL == "people"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"KIND": "volume", "COLLECTION": "others"}, "KIND 'volume'"),
        ({"KIND": "other", "COLLECTION": "volumes"}, "COLLECTION 'volumes'"),
        ({"KIND": "other", "COLLECTION": "runs"}, "COLLECTION 'runs'"),
        ({"KIND": "link", "COLLECTION": "links"}, "KIND 'link'"),
        ({"KIND": "other"}, "COLLECTION"),
        ({"KIND": "other", "COLLECTION": "others", "KEY": ()}, "KEY"),
        ({"KIND": "../etc", "COLLECTION": "others"}, "KIND '../etc'"),
        ({"KIND": "other", "COLLECTION": "system.users"}, "COLLECTION 'system.users'"),
        (
            {"KIND": "other", "COLLECTION": "others", "__annotations__": {"media": str}},
            "field 'media'",
        ),
    ],
)
def test_a_type_that_cannot_be_told_from_others_is_refused(said: dict[str, Any], sentence: str, registry: None) -> None:
    before = dict(RECORDS)
    with pytest.raises(UsageError, match=re.escape(f"Another ({__name__})")) as refused:
        define(**{"KEY": ("raw",), **said})
    assert sentence in str(refused.value)
    assert before == RECORDS


def test_a_module_may_be_imported_again(registry: None) -> None:
    again = define(KIND="other", COLLECTION="others", KEY=("raw",))
    assert RECORDS["other"] is again
    again = define(KIND="other", COLLECTION="others", KEY=("raw",))
    assert RECORDS["other"] is again


def test_the_key_is_made_of_the_fields_that_it_names() -> None:
    assert volume().key == "a 7"
    document = volume(title="Emma", raw=b"<p>").to_document()
    assert document == {
        "_id": "a 7",
        "provenance": {"url": PAGE.url, "fetched_at": PAGE.fetched_at, "spider": "books"},
        "shelf": "a",
        "number": 7,
        "title": "Emma",
    }


@pytest.mark.parametrize(
    "shelf", ["", " ", "a b", " a", "a\n", "a\0", "\ud800", "a\x7fb"], ids=lambda shelf: repr(shelf)
)
def test_what_cannot_be_a_part_of_a_key_is_refused(shelf: str) -> None:
    with pytest.raises(InvalidRecordError, match="volume: "):
        volume(shelf=shelf)


@pytest.mark.parametrize(
    "fields",
    [
        {"number": "7"},
        {"number": None},
        {"title": b"Emma"},
        {"price": "51.77"},
        {"raw": "<p>"},
        {"provenance": "https://books.example"},
        {"media_paths": {"cover": 1}},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecordError, match=f"volume: Expected .* got .*{next(iter(fields))}"):
        volume(**fields)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, None),
        ({"cover_url": "https://books.example/1.jpg", "page_count": 5}, None),
        ({"page_count": -1}, "page_count"),
        ({"cover_url": "javascript:alert(1)"}, "cover_url"),
    ],
)
def test_rules_across_fields_are_told_by_their_names(fields: dict[str, Any], problem: str | None) -> None:
    assert (volume(**fields).problem() or "").partition(" ")[0] == (problem or "")


def test_a_field_of_another_type_may_have_any_name(registry: None) -> None:
    fields: dict[str, Any] = {"reader_count": dict[str, int], "mirror_url": list[str], "number": int}
    other: Any = define(KIND="other", COLLECTION="others", KEY=("number",), __annotations__=fields)
    assert other(reader_count={"a": -1}, mirror_url=["/x"], number=1, provenance=PAGE).problem() is None


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"KEY": ("raw",)}, "Another (tests.items.test_base) "),
        ({"KIND": "other", "COLLECTION": "others", "KEY": ("raw", "isbn")}, "KEY names 'isbn'"),
        (
            {"KIND": "other", "COLLECTION": "others", "KEY": ("raw",), "COVERED": ("titel",)},
            "COVERED names 'titel'",
        ),
        (
            {"KIND": "other", "COLLECTION": "others", "KEY": ("raw",), "VERSION": "edition"},
            "VERSION names 'edition'",
        ),
    ],
)
def test_a_type_that_names_what_it_has_not_makes_no_record(said: dict[str, Any], sentence: str, registry: None) -> None:
    another = define(**said)
    with pytest.raises(UsageError, match=re.escape(sentence)):
        another(provenance=PAGE, raw=b"x")


@pytest.mark.parametrize("path", ["1.jpg", "books/1.jpg", "books/2026/A-1_b.c.jpg"])
def test_a_picture_may_lie_in_folders(path: str) -> None:
    assert Record.MEDIA_PATH.fullmatch(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".jpg",
        "/1.jpg",
        "//1.jpg",
        "../1.jpg",
        "books/../1.jpg",
        "books/./1.jpg",
        "books//1.jpg",
        ".partial/1.jpg",
        "books./1.jpg",
        "-rf/1.jpg",
        "books\\1.jpg",
        "c:/1.jpg",
        "books/1.jpg\n",
        "books/\0.jpg",
        "books/é.jpg",
        "books/1.html",
        "books/1.jpg/",
        "a/" * 9 + "1.jpg",
        "a" * 300 + ".jpg",
    ],
    ids=lambda path: repr(path[:30]),
)
def test_a_picture_lies_nowhere_else(path: str) -> None:
    assert not Record.MEDIA_PATH.fullmatch(path)


def test_a_record_belongs_to_nobody_and_has_no_pictures_unless_it_says_so() -> None:
    assert volume().belongs_to == ""
    assert not volume().opted_out
    assert volume().stub() is None
    pictures: list[Media] = volume().media()
    assert pictures == []
