"""A schema that would fail at each row is refused when it is given, and `format` is checked or said not to be."""

import logging
from pathlib import Path
from typing import Any

import pytest

from harvester.exceptions import UsageError
from harvester.parsers.web.schemas import check_schema, problem_of, unchecked_formats
from harvester.spiders.endpoints.definition import declared, read_endpoints
from harvester.spiders.endpoints.spider import EndpointsSpider

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
CANNOT_BE_USED = {
    "pattern": {"pattern": "("},
    "pattern within": {"properties": {"a": {"items": {"pattern": "*"}}}},
    "pattern of names": {"patternProperties": {"[": {}}},
    "pattern of names in draft 4": {
        "$schema": DRAFT_4,
        "properties": {"a": {"patternProperties": {"[": {}}}},
    },
    "pattern of ECMAScript": {"pattern": r"\p{Letter}+"},
    "no such part": {"$ref": "#/$defs/none"},
    "no such part within": {"items": {"anyOf": [{"$ref": "#/definitions/none"}]}},
    "elsewhere": {"$ref": "https://elsewhere.example/schema.json"},
    "itself": {"$ref": "#"},
    "itself through another": {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
    "draft": {"$schema": "https://json-schema.org/draft/2099-01/schema"},
    "draft that is no text": {"$schema": 5},
    "type": {"type": "many"},
    "number that is none": {"maximum": float("nan")},
}


@pytest.mark.parametrize("schema", CANNOT_BE_USED.values(), ids=CANNOT_BE_USED)
def test_a_schema_that_cannot_be_used_is_refused_when_it_is_given(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check_schema(schema)
    given = {"url": "https://a.example/", "rows": "@", "schema": schema}
    with pytest.raises(UsageError, match=r"prices\.schema: "):
        declared("prices", given)


def test_a_schema_is_deep_only_as_far_as_it_can_be_asked() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(3000):
        schema = {"items": schema}
    with pytest.raises(UsageError):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"next": {"$ref": "#"}}},
        {"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/a"}}},
        {"$ref": "http://json-schema.org/draft-07/schema#"},
        {"$id": "https://a.example/s", "$defs": {"b": {"$id": "b", "type": "object"}}, "$ref": "b"},
        {
            "$schema": DRAFT_4,
            "definitions": {"a": {}},
            "items": {"$ref": "#/definitions/a"},
        },
        {"pattern": "^a+$", "patternProperties": {"^x-": {}}},
        {"$dynamicRef": "#node", "$defs": {"n": {"$dynamicAnchor": "node", "type": "object"}}},
    ],
)
def test_what_leads_to_an_end_is_taken(schema: dict[str, Any]) -> None:
    check_schema(schema)
    assert problem_of({}, schema) == ""


@pytest.mark.parametrize(
    ("word", "good", "bad"),
    [
        ("date-time", "2026-01-02T10:00:00Z", "2026-01-02 10:00"),
        ("date", "2026-02-28", "2026-02-30"),
        ("time", "10:00:00Z", "25:00:00Z"),
        ("email", "a@b.example", "a.b.example"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", "1::2::3"),
        ("uri", "https://a.example/", "a.example"),
        ("hostname", "a.example", "-a-.example"),
        ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8"),
        ("regex", "^a$", "("),
        ("duration", "P1D", "1 day"),
        ("json-pointer", "/a", "a"),
    ],
)
@pytest.mark.parametrize("draft", ["", DRAFT_4, "http://json-schema.org/draft-07/schema#"])
def test_the_formats_of_json_schema_are_checked_in_each_draft(word: str, good: str, bad: str, draft: str) -> None:
    schema = {"properties": {"x": {"format": word}}, **({"$schema": draft} if draft else {})}
    assert problem_of({"x": good}, schema) == ""
    assert problem_of({"x": 5}, schema) == ""
    assert word in problem_of({"x": bad}, schema)
    assert unchecked_formats(schema) == []


def test_a_format_that_is_none_of_json_schema_is_said_to_check_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "e.toml"
    file.write_text(
        """[prices]
        url = "https://a.example/"
        rows = "@"
        schema = { properties = { n = { format = "int64" }, d = { format = "date" } } }
        """,
        "utf-8",
    )
    with caplog.at_level(logging.WARNING):
        EndpointsSpider.parse_arguments({"endpoints": f"@{file}"})
    assert [record.args for record in caplog.records] == [("prices", "int64")]
    schema = read_endpoints(f"@{file}")["prices"].json_schema
    assert schema is not None
    assert unchecked_formats(schema) == ["int64"]
    assert problem_of({"n": "x"}, schema) == ""
