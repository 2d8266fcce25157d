"""What is declared of endpoints is read, or refused with what is wrong and where."""

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from scrapy import Request

from harvester.download.addresses import origin_of
from harvester.exceptions import UsageError
from harvester.internal_meta import FROM_ENVIRONMENT
from harvester.items import Found
from harvester.items.other import check_collection
from harvester.middlewares.environment import EnvironmentMiddleware
from harvester.recheck.stopping import ListRule
from harvester.spiders.endpoints.definition import (
    collection_of,
    endpoint_of,
    missing_variables,
    read_endpoints,
)
from harvester.spiders.endpoints.spider import EndpointsArguments, EndpointsSpider
from tests.root import ROOT

URL = "https://api.example.org/prices"


class Price(BaseModel):
    """A model that a file of endpoints names."""

    id: int
    price: float


BAD = [
    ("[a]\nurl = 'api.example.org'", "a.url: 'api.example.org' is no address; give one like"),
    ("[a]\nurl = 'ftp://api.example.org/x'", "is no address; give one like 'https://api.example.org/prices'"),
    ("[a]\nurl = 'https://a.example/?key=${KEY}'", "a secret in an address would stand in logs and records"),
    ("[a]\ninterval = '5m'", "a.url: Field required"),
    (f"[a]\nurl = '{URL}'\ninterval = '5 minutes'", "a.interval: '5 minutes' is no duration"),
    (f"[a]\nurl = '{URL}'\ninterval = '10s'", "10s is too short: from 30s to 52w"),
    (f"[a]\nurl = '{URL}'\nintervall = '5m'", "there is no such key; did you mean interval?"),
    (f"[a]\nurl = '{URL}'\nmethod = 'DELETE'", "a.method: Input should be 'GET' or 'POST'"),
    (f"[a]\nurl = '{URL}'\nrows = 'data..items'", "is neither a JMESPath, like data.items, nor a JSON Pointer"),
    (f"[a]\nurl = '{URL}'\nkey = 'id'", "`key` and `pages` are of rows: say where these are"),
    (f"[a]\nurl = '{URL}'\nrows = '@'\npick = 'data'", "`pick` is of a document that is kept as a whole"),
    (f"[a]\nurl = '{URL}'\nbody = {{ a = 1 }}", "a `body` is sent by method = 'POST'"),
    (f"[a]\nurl = '{URL}'\nheaders = {{ X-Key = '${{MY KEY}}' }}", "names no variable of the environment"),
    (f"[a]\nurl = '{URL}'\nheaders = {{ 'X Key' = 'x' }}", "a.headers.X Key: 'X Key' is no name of a header"),
    (
        f"[a]\nurl = '{URL}'\nheaders = {{ Content-Length = '9' }}",
        "the header Content-Length is written with each request",
    ),
    (f'[a]\nurl = "{URL}"\nheaders = {{ X-Key = "a\\nB: c" }}', "a.headers.X-Key: a header is one line"),
    ("[a]\nurl = 'https://a.example:99999/'", "a.url: Port out of range"),
    (f"[a]\nurl = '{URL}'\ncollection = 'Prices'", "'Prices' is no name of a collection"),
    (f"[a]\nurl = '{URL}'\ncollection = 'jobs'", "the collection jobs is of other records: choose another name"),
    (f"[a]\nurl = '{URL}'\nschema = {{ type = 'number', minimum = 'x' }}", "a.schema: it is no JSON Schema"),
    (f"[a]\nurl = '{URL}'\nschema = 'missing.json'", "missing.json cannot be read: No such file or directory"),
    (f"[a]\nurl = '{URL}'\nschema = 'no.such.module:Model'", "the model no.such.module:Model cannot be imported"),
    (f"[a]\nurl = '{URL}'\nschema = 'json:loads'", "json:loads is no pydantic model"),
    (
        f"[a]\nurl = '{URL}'\nrows = '@'\npages = {{ by = 'cursor', at = 'next' }}",
        "needs the `parameter` of the address",
    ),
    (f"[a]\nurl = '{URL}'\nrows = '@'\npages = {{ by = 'next' }}", "needs `at`: where the answer holds it"),
    (f"url = '{URL}'", "url stands outside of a table: put it below a line like [defaults] or [prices]"),
    (f"[a]\nurl = '{URL}'\nschema = ':Model'", "the model :Model cannot be imported"),
    (f"[a]\nurl = '{URL}'\nschema = '..a:Model'", "the model ..a:Model cannot be imported"),
    (f"[a]\nurl = '{URL}'\nschema = {{ '$schema' = 5 }}", "a.schema: it is no JSON Schema: its $schema is no text"),
    (f"defaults = '5m'\n[a]\nurl = '{URL}'", "defaults stands outside of a table: put it below a line like [defaults]"),
    (
        f"['eu-prices']\nurl = '{URL}'\n[eu_prices]\nurl = '{URL}'",
        "eu-prices and eu_prices: both would be kept in the collection eu_prices: say the `collection` of each",
    ),
    ("[a]\nurl = 'https://user:secret@a.example/'", "a password in an address would stand in logs and records"),
    ("[a\nurl = 1", "is no TOML"),
    ("[defaults]\ninterval = '1m'", "There is no endpoint in"),
]
"""A file's text, and what is said of it."""


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_file_that_cannot_be_used_is_refused_with_the_place_and_what_to_do(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "endpoints.toml").write_text(text, "utf-8")
    with pytest.raises(UsageError) as refused:
        EndpointsSpider.parse_arguments({"endpoints": f"@{tmp_path / 'endpoints.toml'}"})
    assert said in str(refused.value)


UNUSABLE = [
    ({}, "endpoints: Field required"),
    ({"endpoints": "@missing.toml"}, "The file of endpoints missing.toml cannot be read: No such file or directory."),
    (
        {"endpoints": "@~unknown/x.toml"},
        "The file of endpoints ~unknown/x.toml cannot be read: No such file or directory.",
    ),
    ({"endpoints": "api.example.org/prices"}, "line 1: 'api.example.org/prices' is no address"),
    ({"endpoints": "https://a.example/", "every": "1m"}, "every: there is no such argument"),
]
"""Arguments, and what is said of them."""


@pytest.mark.parametrize(("arguments", "said"), UNUSABLE)
def test_arguments_that_cannot_be_used_are_refused(
    arguments: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        EndpointsSpider.parse_arguments(arguments)
    assert said in str(refused.value)


def test_a_variable_that_headers_name_has_to_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    file = tmp_path / "endpoints.toml"
    file.write_text(f"[a]\nurl = '{URL}'\nheaders = {{ Authorization = 'Bearer ${{MY_KEY}}' }}", "utf-8")
    with pytest.raises(UsageError, match="Set these variables in the environment, which headers name:\n  a: MY_KEY"):
        EndpointsSpider.parse_arguments({"endpoints": f"@{file}"})
    monkeypatch.setenv("MY_KEY", "secret")
    assert missing_variables(read_endpoints(f"@{file}")["a"]) == []
    assert "secret" not in str(next(iter(EndpointsSpider.first_items(EndpointsArguments(endpoints=f"@{file}")))))


def test_a_secret_that_came_from_a_file_is_sent_without_its_line_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret\r\n")
    secret = {"origin": origin_of(URL), "headers": {"Authorization": "Bearer ${MY_KEY}"}}
    request = Request(URL, meta={FROM_ENVIRONMENT: secret})
    EnvironmentMiddleware().process_request(request)
    assert request.headers["Authorization"] == b"Bearer secret"


def test_tables_have_what_the_defaults_say_and_their_items_hold_no_more_than_they_need(tmp_path: Path) -> None:
    (tmp_path / "row.json").write_text(json.dumps({"type": "object"}), "utf-8")
    file = tmp_path / "endpoints.toml"
    file.write_text(
        f"""
        [defaults]
        interval = "1h"
        schema = "row.json"
        rows = "items"

        ["Prices of Oslo"]
        url = "{URL}"
        pages = {{ by = "page", parameter = "p", first = 0 }}

        [models]
        url = "{URL}"
        interval = "2h"
        schema = "tests.endpoints.test_definition:Price"
        """,
        "utf-8",
    )
    endpoints = read_endpoints(f"@{file}")
    oslo, models = endpoints["Prices of Oslo"], endpoints["models"]
    assert (oslo.interval, oslo.collection, oslo.json_schema) == ("1h", "prices_of_oslo", {"type": "object"})
    assert oslo.pages
    assert oslo.pages.rule == ListRule("page", 0)
    assert (models.json_schema or {})["required"] == ["id", "price"]
    found = models.found("models")
    assert found.recheck == "every 2h"
    assert endpoint_of(found.input) == models
    assert set(found.input) == {"url", "interval", "rows", "schema", "collection"}


def test_addresses_alone_are_endpoints_of_one_collection(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.txt"
    file.write_text(f"# prices\n{URL} # of all\n\nhttps://b.example/\n", "utf-8")
    assert [*read_endpoints(f"@{file}")] == [URL, "https://b.example/"]
    assert {each.collection for each in read_endpoints(f"{URL},https://b.example/").values()} == {"endpoints"}


def test_an_endpoint_s_collection_is_named_after_it() -> None:
    assert [collection_of(name) for name in ("Prices/Oslo", "7-day")] == ["prices_oslo", "endpoint_7_day"]
    others = ["价格", "天气", "--", "цены", "café", "cafe", "a" * 60, "a" * 61]
    assert len({collection_of(name) for name in others}) == len(others), "each has its own, whatever its letters are"
    for name in others:
        check_collection(collection_of(name))


def test_endpoints_share_a_collection_that_they_name(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.toml"
    file.write_text(f"[a]\nurl = '{URL}'\n[b]\nurl = '{URL}'\ncollection = 'a'", "utf-8")
    assert [each.collection for each in read_endpoints(f"@{file}").values()] == ["a", "a"]


def test_a_file_is_the_same_job_whatever_stands_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = EndpointsArguments(endpoints="@a.toml")
    assert arguments.identity() == {"endpoints": f"@{tmp_path / 'a.toml'}"} == arguments.kept()


def test_an_endpoint_may_be_added_to_a_job_by_its_address_and_changed_there() -> None:
    added = EndpointsSpider.check_item(Found("endpoint", URL, depth=0))
    assert (added.input, added.recheck) == ({"url": URL, "collection": "endpoints"}, "every 5m")
    changed = EndpointsSpider.check_item(Found("endpoint", URL, {**added.input, "interval": "1m"}))
    assert (changed.recheck, changed.input["interval"]) == ("every 1m", "1m")
    with pytest.raises(UsageError, match=r"prices\.url: Field required"):
        EndpointsSpider.check_item(Found("endpoint", "prices", {"interval": "1m"}))
    with pytest.raises(UsageError, match="'prices' is no address"):
        EndpointsSpider.check_item(Found("endpoint", "prices"))


@pytest.mark.parametrize("schema", [{"type": "many"}, {"pattern": "("}, {"$schema": 5}])
def test_a_schema_that_is_none_is_refused_wherever_it_comes_from(schema: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"prices\.schema: it is no JSON Schema"):
        EndpointsSpider.check_item(Found("endpoint", "prices", {"url": URL, "schema": schema}))


def test_what_the_page_shows_of_a_file_can_be_used(tmp_path: Path) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "endpoints.md").read_text("utf-8"), re.M | re.S)
    (tmp_path / "price.json").write_text("{}")
    for block in blocks:
        (tmp_path / "endpoints.toml").write_text(block)
        assert read_endpoints(f"@{tmp_path / 'endpoints.toml'}")
    assert blocks
