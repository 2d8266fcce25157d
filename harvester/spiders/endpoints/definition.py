"""The definition of an endpoint: a table in a TOML file, or just an address on a line of text."""

import importlib
import json
import logging
import os
import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from harvester import validation
from harvester.bounded.process import BoundedProcess, Bounds
from harvester.decoding import decode_text
from harvester.exceptions import InvalidRecordError, TooCostlyError, UsageError
from harvester.hosts import user_of
from harvester.items import Found
from harvester.items.other import check_collection, collection_named
from harvester.parsers.web.endpoint import EndpointDeclaration
from harvester.parsers.web.rows import check_path
from harvester.parsers.web.schemas import check_schema, unchecked_formats
from harvester.recheck.durations import read_duration
from harvester.recheck.stopping import ListRule, Pages
from harvester.sites.problems import problems

logger = logging.getLogger(__name__)

ENDPOINT = "endpoint"
"""Kind of an item, whose key is the endpoint's name."""
DEFAULTS = "defaults"
"""Name of the table with default values for all others."""
ALONE = "endpoints"
"""Collection for endpoints that are only an address."""
USUAL_INTERVAL = "5m"
MOST_FILE_BYTES = 10 * 1024 * 1024
SMALL_SCHEMA = 8_000
"""Maximum number of characters in a schema that is checked in this process."""
CHECK_BOUNDS = Bounds(cpu_s=5.0, memory_mb=128, result_mb=1, silence_s=60.0)
_OWN_HEADERS = frozenset({"content-length", "transfer-encoding"})
"""Headers that every request gets anyway: a wrong value makes the server wait for a body that never comes."""
_is_header = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_has_control = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search
_is_variable = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_variables = re.compile(r"\$\{([^}]*)\}").findall


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", value):
        raise ValueError(f"{value!r} is no address; give one like 'https://api.example.org/prices'")
    if parts.port == 0:  # an invalid port raises ValueError
        raise ValueError(f"{value!r} names the port 0, which no server has")
    if user_of(value):
        said = "a password in an address would stand in logs and records: send it in the header Authorization"
        raise ValueError(said)
    if "${" in value:
        raise ValueError("a secret in an address would stand in logs and records: send it in a header")
    return value


def _header(name: str) -> str:
    if not _is_header(name):
        raise ValueError(f"{name!r} is no name of a header: letters, digits and -, as in X-Key")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"the header {name} is written with each request: leave it out")
    return name


def _header_value(value: str) -> str:
    if _has_control(value):
        raise ValueError("a header is one line: take line ends, and other control characters, out of it")
    return value


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


JsonPath = Annotated[str, validation.read_by(lambda path: path and check_path(path))]
"""A JMESPath, or a JSON Pointer."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Paging(_Table):
    """The table `pages`: the pagination of a list, newest rows first."""

    by: Literal["cursor", "page", "offset", "link", "next"]
    """Kind of pagination: a cursor, the number of a page or a row, the header Link, or an address."""
    parameter: str = ""
    """The parameter of the address that takes the value; empty for `link` and `next`."""
    at: JsonPath = ""
    """Path to the cursor, or to the address of the next page, in the response."""
    first: int = Field(1, ge=0, le=1)
    """Number of the first page."""
    total: JsonPath = ""
    """Path to the total number of rows in the response."""
    in_a_row: int = Field(3, ge=0, le=1000)
    """Number of consecutive known rows that ends a visit; 0: each visit reads the list to its end."""

    @model_validator(mode="after")
    def _together(self) -> "Paging":
        if self.by in ("cursor", "page", "offset") and not self.parameter:
            raise ValueError(f"by = {self.by!r} needs the `parameter` of the address that takes it")
        if self.by in ("cursor", "next") and not self.at:
            raise ValueError(f"by = {self.by!r} needs `at`: where the answer holds it")
        return self

    @property
    def rule(self) -> ListRule:
        """The rule for a visit's pages."""
        numbered: dict[str, Pages] = {"page": "page", "offset": "offset"}
        return ListRule(numbered.get(self.by, "cursor"), self.first if self.by == "page" else 0, self.in_a_row)


class Endpoint(_Table):
    """A table of the file. Its name is the endpoint's."""

    url: Annotated[str, AfterValidator(_address)]
    interval: Annotated[str, validation.read_by(read_duration)] = USUAL_INTERVAL
    """Time between two visits."""
    method: Literal["GET", "POST"] = "GET"
    headers: dict[Annotated[str, AfterValidator(_header)], Annotated[str, AfterValidator(_header_value)]] = Field(
        default_factory=dict
    )
    """`${NAME}` in a value stands for a variable of the environment."""
    body: Any = None
    """Body of a POST, sent as JSON."""
    rows: JsonPath = ""
    """Path to the rows; `@` if the whole document is their list. Empty: the document is saved as a whole."""
    pick: JsonPath = ""
    """Path to the part of a document without rows that is saved."""
    key: Annotated[tuple[JsonPath, ...], BeforeValidator(_listed)] = ()
    """Fields that identify a row. Empty: a changed row counts as a new one."""
    json_schema: dict[str, Any] | None = Field(None, alias="schema")
    """Schema for a row, or for the document."""
    collection: Annotated[str, validation.read_by(check_collection)] = ""
    """Collection of MongoDB. Empty: named after the endpoint."""
    pages: Paging | None = None

    @model_validator(mode="after")
    def _together(self) -> "Endpoint":
        if (self.key or self.pages) and not self.rows:
            raise ValueError('`key` and `pages` are of rows: say where these are, `rows = "data.items"`')
        if self.pick and self.rows:
            raise ValueError("`pick` is of a document that is kept as a whole, and has no `rows`")
        if self.body is not None and self.method != "POST":
            raise ValueError("a `body` is sent by method = 'POST'")
        for name in self.variables:
            if not _is_variable(name):
                raise ValueError(f"headers: ${{{name}}} names no variable of the environment")
        return self

    @property
    def variables(self) -> list[str]:
        """The environment variables that the headers use."""
        return [name for value in self.headers.values() for name in _variables(value)]

    @property
    def wanted(self) -> EndpointDeclaration:
        """The declaration that its responses are parsed with."""
        pages = self.pages
        leads_to = pages.at if pages and pages.by != "link" else ""
        return EndpointDeclaration(
            self.rows, self.pick, self.key, self.json_schema, leads_to, pages.total if pages else ""
        )

    def found(self, name: str) -> Found:
        """Returns the endpoint as an item of a job. The input is the table without default values."""
        given = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return Found(ENDPOINT, name, given, depth=0, recheck=f"every {self.interval}")


def endpoint_of(given: Mapping[str, Any]) -> Endpoint:
    """Returns the endpoint in an item's input."""
    return Endpoint.model_validate(dict(given))


def declared(name: str, given: Mapping[str, Any]) -> Endpoint:
    """Checks the definition of an endpoint; an empty one uses the name as its address. Raises UsageError."""
    try:
        endpoint = Endpoint(**{"collection": collection_of(name), **(given or {"url": name, "collection": ALONE})})
        _check_schema(endpoint.json_schema or {})
    except ValidationError as error:
        said = "; ".join(f"{place}: {fault}" for place, fault in problems(error, Endpoint, name).items())
        raise UsageError(said) from None
    except UsageError as error:
        raise UsageError(f"{name}.schema: {error}") from None
    return endpoint


def warn_of_formats(name: str, endpoint: Endpoint) -> None:
    """Warns about formats in a schema that check nothing."""
    for word in unchecked_formats(endpoint.json_schema):
        logger.warning("%s.schema: the format %r is none of JSON Schema's: it checks nothing", name, word)


def missing_variables(endpoint: Endpoint) -> list[str]:
    """Returns the variables that are missing from the environment."""
    return sorted({name for name in endpoint.variables if not os.environ.get(name, "").strip()})


def read_endpoints(given: str) -> dict[str, Endpoint]:
    """Reads endpoints by name, from `@FILE` or comma-separated addresses. Raises UsageError that names each fault."""
    if not given.startswith("@"):
        return _of_addresses([each.strip() for each in given.split(",")], "-a endpoints")
    path = Path(os.path.expanduser(given[1:]))
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            raise UsageError(f"{path} is larger than {MOST_FILE_BYTES:,} bytes, which no list of endpoints is.")
        text = decode_text(path.read_bytes(), prefers_utf8=True)
    except OSError as error:
        raise UsageError(f"The file of endpoints {path} cannot be read: {error.strerror}.") from None
    if path.suffix.lower() == ".toml":
        return _of_tables(path, text)
    return _of_addresses([line.partition(" #")[0].strip() for line in text.splitlines()], str(path))


def _of_addresses(lines: Sequence[str], where: str) -> dict[str, Endpoint]:
    found: dict[str, Endpoint] = {}
    bad: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        try:
            found[line] = Endpoint(url=line, collection=ALONE)
        except ValidationError as error:
            bad.append(f"line {number}: {validation.said_of(error.errors()[0])}")
    return _checked(found, bad, where)


def _of_tables(path: Path, text: str) -> dict[str, Endpoint]:
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"The file of endpoints {path} is no TOML: {error}.") from None
    defaults = tables.pop(DEFAULTS, {})
    found: dict[str, Endpoint] = {}
    named_after: defaultdict[str, list[str]] = defaultdict(list)
    bad: list[str] = []
    if not isinstance(defaults, dict):
        defaults, tables = {}, {DEFAULTS: defaults, **tables}
    for name, table in tables.items():
        if not isinstance(table, dict):
            bad.append(f"{name} stands outside of a table: put it below a line like [{DEFAULTS}] or [prices]")
            continue
        try:
            given = {**defaults, **table}
            if "schema" in given:
                given["schema"] = _schema(given["schema"], path.parent)
            found[name] = Endpoint(**{"collection": collection_of(name), **given})
            if "collection" not in given:
                named_after[found[name].collection].append(name)
        except ValidationError as error:
            bad += [f"{place}: {said}" for place, said in problems(error, Endpoint, name).items()]
        except UsageError as error:
            bad.append(f"{name}.schema: {error}")
    for collection, names in named_after.items():
        if len(names) > 1:
            said = f"both would be kept in the collection {collection}: say the `collection` of each"
            bad.append(f"{' and '.join(names[:2])}: {said}")
    return _checked(found, bad, str(path))


def _checked(found: dict[str, Endpoint], bad: list[str], where: str) -> dict[str, Endpoint]:
    for name, endpoint in found.items():
        try:
            endpoint.found(name)
        except InvalidRecordError as error:
            bad.append(f"{name}: {error}")
    if bad:
        raise UsageError(f"Endpoints of {where} cannot be used:\n" + "\n".join(f"  {line}" for line in bad))
    if not found:
        raise UsageError(f"There is no endpoint in {where}: give a table like [prices] with a `url`, or an address.")
    return found


def collection_of(name: str) -> str:
    """Returns the collection of an endpoint that names none."""
    return collection_named(name, "endpoint")


def _schema(given: Any, folder: Path) -> Any:
    """Reads a schema: a table, a file, or a pydantic model, `package.module:Model`. Raises UsageError."""
    if isinstance(given, str):
        module, colon, name = given.partition(":")
        given = _of_model(module, name) if colon else _of_file(folder / given)
    if not isinstance(given, dict):
        raise UsageError("it is a table, the name of a file, or a pydantic model like 'package.module:Model'")
    _check_schema(given)
    return given


def _check_schema(schema: Any) -> None:
    """Raises UsageError for a bad schema. Checks a large one in a separate process, because that may be expensive."""
    if len(json.dumps(schema)) <= SMALL_SCHEMA:
        check_schema(schema)
        return
    with closing(BoundedProcess()) as process:
        try:
            process.call(CHECK_BOUNDS, check_schema, schema)
        except TooCostlyError as error:
            raise UsageError(f"it is too large to be checked: {error}") from None


def _of_file(path: Path) -> Any:
    try:
        return json.loads(decode_text(path.read_bytes(), prefers_utf8=True))
    except OSError as error:
        raise UsageError(f"the file {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the file {path} is no JSON: {error}") from None


def _of_model(module: str, name: str) -> Any:
    try:
        model = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # the last two are for an invalid module name
        raise UsageError(f"the model {module}:{name} cannot be imported: {error}") from None
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        raise UsageError(f"{module}:{name} is no pydantic model")
    return model.model_json_schema()
