"""Rows of JSON documents, schemas, shapes, and where the header Link leads."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harvester.exceptions import ParseError, UsageError
from harvester.parsers.json_text import canonical, read_json
from harvester.parsers.web.links import next_link
from harvester.parsers.web.rows import (
    ANY,
    MOST_FIELDS,
    MOST_FIELDS_IN_ALL,
    MOST_NAME,
    at,
    check_path,
    key_of,
    lack_of,
    merged,
    new_fields,
    rows_at,
    shape_change,
    shape_of,
)
from harvester.parsers.web.schemas import check_schema, problem_of

DOCUMENT = {"data": {"items": [{"id": 1}, {"id": 2}], "a/b": {"~": 3}}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("data.items[].id", [1, 2]),
        ("@", DOCUMENT),
        ("/data/items/1/id", 2),
        ("/data/a~1b/~0", 3),
        ("/data/items/2", None),
        ("/data/items/x", None),
        ("/nothing/here", None),
        ("values(data)[0]", [{"id": 1}, {"id": 2}]),
    ],
)
def test_a_path_finds_what_stands_there(path: str, found: object) -> None:
    assert at(path, DOCUMENT) == found


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("items[::0]", {"items": [1]}),
        ("max_by(@, &id)", [{"id": 1}, {"id": "x"}]),
        ("@ < `5`", "x"),
        ("sum(@)", ["x"]),
    ],
)
def test_what_a_path_fails_at_is_said_of_the_answer(path: str, document: object) -> None:
    with pytest.raises(ParseError, match=re.escape(path)):
        at(path, document)


def test_a_path_is_checked_without_being_evaluated() -> None:
    check_path("`[1]`" + " | [@,@][]" * 60)


def test_a_long_path_is_refused() -> None:
    with pytest.raises(UsageError, match="2,000"):
        check_path("a" * 2_001)


@pytest.mark.parametrize(
    "path",
    [
        "reverse(data)",
        "sort_by(data.items, &id)",
        "values(@)",
        "/data/items",
        "data[?id]",
        "data[0:10]",
        "data[::-1].id",
    ],
)
def test_a_path_may_use_functions(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path", ["data..items", "nothing(@)", "reverse()", "[reverse(a, b)]", "(" * 1900, "'", "items[::0"]
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="JMESPath"):
        check_path(path)


@pytest.mark.parametrize(
    ("path", "said"),
    [("data", "object"), ("nothing", "nothing"), ("sum(data)", "'sum(data)'")],
)
def test_where_no_rows_are_is_said(path: str, said: str) -> None:
    with pytest.raises(ParseError) as refused:
        rows_at(path, DOCUMENT)
    assert said in str(refused.value)


def test_what_is_no_json_is_said() -> None:
    for body in (b"<html>", b"", b"\xff", b"[" * 100_000):
        with pytest.raises(ParseError, match="JSON"):
            read_json(body)


def test_a_key_is_made_of_fields_and_its_lack_is_said() -> None:
    row: dict[str, object] = {"shop": " a  b ", "at": {"id": 7}, "none": None, "list": [], "blank": "  "}
    assert key_of(row, ("shop", "at.id")) == "a b/7"
    assert key_of(row, ()) == ""
    assert key_of({"id": "a/b~"}, ("id",)) == "a/b~"
    assert lack_of(row, ("shop", "/at/id")) == ""
    for field in ("none", "list", "missing", "at", "blank"):
        assert repr(field) in lack_of(row, ("shop", field))


@given(st.lists(st.text("a/~ 1", min_size=1), min_size=4, max_size=4))
def test_two_rows_whose_fields_differ_have_two_keys(texts: list[str]) -> None:
    one, other = ({"a": a, "b": b} for a, b in (texts[:2], texts[2:]))
    assume(not any(lack_of(row, ("a", "b")) for row in (one, other)))
    written = [{name: " ".join(value.split()) for name, value in row.items()} for row in (one, other)]
    assert (key_of(one, ("a", "b")) == key_of(other, ("a", "b"))) is (written[0] == written[1])
    assert key_of({"a": "x/y", "b": "z"}, ("a", "b")) != key_of({"a": "x", "b": "y/z"}, ("a", "b"))


def test_a_row_that_does_not_fit_says_where() -> None:
    schema = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["id"]}
    assert problem_of({"id": 1, "price": 2}, schema) == ""
    assert problem_of({"id": 1, "price": "x"}, schema).startswith("price: 'x' ")
    assert "'id'" in problem_of({}, schema)


def test_nothing_that_a_schema_refers_to_is_fetched() -> None:
    assert "refers to" in problem_of({}, {"$ref": "https://elsewhere.example/schema.json"})


@pytest.mark.parametrize("schema", [{"type": "many"}, {"$schema": 5}, {"$schema": ["x"]}, {"pattern": "("}])
def test_what_is_no_schema_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="JSON Schema"):
        check_schema(schema)


def test_a_schema_that_refers_to_itself_without_end_fits_nothing() -> None:
    assert "refers to itself" in problem_of({}, {"$ref": "#"})
    assert "refers to itself" in problem_of({}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})


def test_the_same_value_is_written_the_same_in_whatever_order_it_came() -> None:
    assert canonical({"a": 1, "b": {"d": 2, "c": 3}}) == canonical({"b": {"c": 3, "d": 2}, "a": 1})


BEFORE = shape_of([{"id": 1, "price": 1, "seen": None, "at": {"x": 1}}, {"id": 2, "price": 2.5, "at": {"x": 1}}])


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([{"id": 3, "price": 3, "at": {"x": 2}}], []),
        ([{"id": 3, "price": None, "at": {"x": 2}, "more": 1}], []),
        ([{"id": 3, "cost": 3, "at": {"x": 2}}], ["'price'", "'cost'"]),
        ([{"id": "3", "price": 3, "at": {"x": 2}}], ["'id'", "number", "text"]),
        ([{"id": 3, "price": 3}], ["'at'"]),
        ([{"id": 3, "price": 3, "at": {}}], ["'at.x'"]),
    ],
)
def test_a_shape_that_has_changed_is_said_in_words(rows: list[dict[str, object]], named: list[str]) -> None:
    said = shape_change(BEFORE, shape_of(rows))
    assert re.search(".*".join(map(re.escape, named)), said)
    assert bool(said) == bool(named)


def test_a_field_that_only_some_rows_had_may_be_missing_and_new_ones_are_named() -> None:
    now = shape_of([{"id": 3, "price": 3, "at": {"x": 2}, "more": 1}])
    assert new_fields(BEFORE, now) == ["more"]
    both = merged(BEFORE, now)
    assert (both["seen"], both["more"], both["price"]) == ("?", "number?", "number")
    assert shape_change(both, shape_of([{"id": 1, "price": 1, "at": {"x": 1}}])) == ""
    assert new_fields({}, now) == []


def of(number: int, name: str = "") -> dict[str, int]:
    return {f"{name}{each}": 1 for each in range(number)}


def test_an_object_whose_names_are_data_has_no_shape() -> None:
    assert shape_of([of(1000)]) == {ANY: "?"}
    assert shape_of([{"at": of(1000)}]) == {"at": "object", f"at.{ANY}": "?"}
    assert shape_of([{"price*": 1}]) == {"price*": "number"}
    assert shape_of([{"at": {"n" * (MOST_NAME + 1): 1}}]) == {"at": "object", f"at.{ANY}": "?"}


@pytest.mark.parametrize("inside", [False, True])
def test_an_object_that_gets_one_more_field_has_lost_none(inside: bool) -> None:
    before, now = (
        shape_of([{"at": of(number)} if inside else of(number)]) for number in (MOST_FIELDS, MOST_FIELDS + 1)
    )
    assert shape_change(before, now) == shape_change(now, before) == ""
    assert new_fields(before, now) == new_fields(now, before) == []
    assert merged(before, now) == merged(now, before) == now


def test_names_that_are_others_in_each_row_are_data() -> None:
    rows = [{"at": of(3, f"{row}-")} for row in range(MOST_FIELDS)]
    assert shape_of(rows) == {"at": "object", f"at.{ANY}": "?"}
    shape = shape_of(rows[:2])
    for row in rows:
        shape = merged(shape, shape_of([row]))
    assert shape == {"at": "object", f"at.{ANY}": "?"}


def test_a_shape_has_no_more_than_a_thousand_names() -> None:
    deep = {"n" * MOST_NAME: {f"{each}": of(99) for each in range(99)}}
    shape = shape_of([deep])
    assert len(shape) < MOST_FIELDS_IN_ALL
    assert shape_change(shape, shape_of([{**deep, "more": 1}])) == ""
    wide = shape_of([{f"{each}": of(99) for each in range(99)}])
    assert wide == {**dict.fromkeys(map(str, range(99)), "object"), **{f"{each}.{ANY}": "?" for each in range(99)}}


@pytest.mark.parametrize(
    ("header", "leads_to"),
    [
        ('<https://a.example/?p=2>; rel="next"', "https://a.example/?p=2"),
        ('<?p=1>; rel=prev, <?p=3>; rel=next; title="a, b"', "https://a.example/list?p=3"),
        ("</x?a=1,2>; title=\"rel=next\"; rel='last'", None),
        ('<?p=3>; REL="last NEXT"', "https://a.example/list?p=3"),
        ("<?p=3>", None),
        ("nonsense", None),
        ("<http://[bad>; rel=next", None),
        ("<" * 16_000 + "?p=3>; rel=next", "https://a.example/list?p=3"),
    ],
)
def test_the_header_link_leads_to_the_next_page(header: str, leads_to: str | None) -> None:
    assert next_link([header], "https://a.example/list?p=2") == leads_to
