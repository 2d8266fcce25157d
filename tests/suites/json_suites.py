"""JSON Schema Test Suite, JSONTestSuite and jmespath.test, against what endpoints are read with."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.jsonschema import DRAFT3, DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from harvester.exceptions import ParseError, UsageError
from harvester.parsers.json_text import read_json
from harvester.parsers.web.rows import at, check_path
from harvester.parsers.web.schemas import check_schema, validator
from tests.suites.result import Result

DRAFTS = {
    "draft3": ("http://json-schema.org/draft-03/schema#", DRAFT3),
    "draft4": ("http://json-schema.org/draft-04/schema#", DRAFT4),
    "draft6": ("http://json-schema.org/draft-06/schema#", DRAFT6),
    "draft7": ("http://json-schema.org/draft-07/schema#", DRAFT7),
    "draft2019-09": ("https://json-schema.org/draft/2019-09/schema", DRAFT201909),
    "draft2020-12": ("https://json-schema.org/draft/2020-12/schema", DRAFT202012),
}
REMOTES = "http://localhost:1234/"

NO_JSON_BUT_READ = {
    *("n_number_NaN", "n_number_-NaN", "n_number_infinity", "n_number_minus_infinity"),
    *("n_string_unescaped_ctrl_char", "n_string_unescaped_newline", "n_string_unescaped_tab"),
    *("n_string_1_surrogate_then_escape_u", "n_string_1_surrogate_then_escape_u1"),
    *("n_string_1_surrogate_then_escape_u1x", "n_string_incomplete_surrogate"),
    *("n_string_incomplete_surrogate_escape_invalid", "n_string_incomplete_escaped_character"),
    *("n_string_escape_x", "n_string_escaped_emoji", "n_string_invalid_backslash_esc"),
    *("n_string_invalid-utf-8-in-escape", "n_string_invalid_utf8_after_escape"),
    *("n_string_invalid_unicode_escape", "n_string_unicode_CapitalU"),
}
"""Files of JSONTestSuite that are no JSON and are read all the same: what is around an odd value is right."""
ANNOTATIONS = "format"
"""A required file by which `format` says nothing unless it is switched on, as it is here."""


def json_schema(folder: Path) -> Iterator[Result]:
    """`tests/DRAFT/*.json` is required of each implementation, `optional/format` is not."""
    for draft, (uri, specification) in DRAFTS.items():
        registry = REGISTRY
        for path in sorted((folder / "remotes").rglob("*.json")):
            name = path.relative_to(folder / "remotes").as_posix()
            if not name.startswith(("draft", "v1")) or name.startswith(f"{draft}/"):
                contents = json.loads(path.read_text("utf-8"))
                if draft in ("draft3", "draft4") and not isinstance(contents, dict):
                    continue  # these drafts know no schema that is true
                registry = registry.with_resource(REMOTES + name, specification.create_resource(contents))
        for part, pattern in (("required", "*.json"), ("optional format", "optional/format/*.json")):
            result = Result("JSON Schema Test Suite", f"{draft}, {part}", is_required=part == "required")
            for path in sorted((folder / "tests" / draft).glob(pattern)):
                for case in json.loads(path.read_text("utf-8")):
                    _schema_case(result, path.stem, case, uri, registry)
            yield result


def _schema_case(result: Result, name: str, case: dict[str, Any], uri: str, registry: Any) -> None:
    schema = case["schema"]
    if isinstance(schema, dict):
        schema = {"$schema": uri, **schema}
    is_refused = False
    try:
        if REMOTES not in json.dumps(schema):
            check_schema(schema)
        asked = validator(schema, registry)
    except UsageError:
        is_refused = True
    for test in case["tests"]:
        is_valid = None if is_refused else asked.is_valid(test["data"])
        said = f"{name}: {case['description']}: {test['description']}"
        result.count(is_valid is test["valid"], said, is_chosen=is_valid is None or name == ANNOTATIONS)


def schemas_taken(folder: Path) -> Iterator[Result]:
    """Whether what is right is taken when it is given: each required schema that needs no other document."""
    result = Result("JSON Schema Test Suite", "schemas that are taken when they are given")
    for draft, (uri, _) in DRAFTS.items():
        for path in sorted((folder / "tests" / draft).glob("*.json")):
            for case in json.loads(path.read_text("utf-8")):
                if REMOTES in json.dumps(case["schema"]) or not isinstance(case["schema"], dict):
                    continue
                try:
                    check_schema({"$schema": uri, **case["schema"]})
                    said = ""
                except UsageError as error:
                    said = str(error)
                is_chosen = r"\p{" in json.dumps(case["schema"]).replace(
                    "\\\\", "\\"
                )  # Python's `re` has no classes of Unicode
                result.count(not said, f"{draft}, {path.stem}: {case['description']}: {said}", is_chosen=is_chosen)
    yield result


def json_texts(folder: Path) -> Iterator[Result]:
    """Files that a reader must take (y), must refuse (n), and may do either with (i)."""
    results = {
        "y": Result("JSONTestSuite", "files that are JSON (y), taken"),
        "n": Result("JSONTestSuite", "files that are none (n), refused"),
        "i": Result("JSONTestSuite", "files that are left open (i), taken", is_required=False),
    }
    for path in sorted((folder / "test_parsing").glob("*.json")):
        try:
            read_json(path.read_bytes())
            is_taken = True
        except ParseError:
            is_taken = False
        kind = path.name[0]
        results[kind].count(is_taken is (kind != "n"), path.stem, is_chosen=path.stem in NO_JSON_BUT_READ)
    yield from results.values()


def jmespath(folder: Path) -> Iterator[Result]:
    """Expressions with what they find, or with the error that they are."""
    found = Result("jmespath.test", "expressions that find something or nothing")
    refused = Result("jmespath.test", "expressions that are errors, refused")
    for path in sorted((folder / "tests").glob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            for case in group["cases"]:
                expression = case["expression"]
                try:
                    check_path(expression)
                    value: Any = at(expression, group["given"])
                    error = ""
                except (UsageError, ParseError) as failed:
                    value, error = None, str(failed)
                name = f"{path.stem}: {expression[:60]}"
                if "error" in case:
                    refused.count(bool(error), name)
                elif "result" in case:
                    found.count(not error and value == case["result"], name)
    yield from (found, refused)
