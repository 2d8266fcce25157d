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
    ("[a]\nurl = 'api.example.org'", "a.url: 'api.example.org'"),
    ("[a]\nurl = 'ftp://api.example.org/x'", "'https://api.example.org/prices'"),
    ("[a]\nurl = 'https://a.example/?key=${KEY}'", "secret"),
    ("[a]\ninterval = '5m'", "a.url: "),
    (f"[a]\nurl = '{URL}'\ninterval = '5 minutes'", "a.interval: '5 minutes'"),
    (f"[a]\nurl = '{URL}'\ninterval = '10s'", "30s to 52w"),
    (f"[a]\nurl = '{URL}'\nintervall = '5m'", "a.intervall: "),
    (f"[a]\nurl = '{URL}'\nmethod = 'DELETE'", "a.method: "),
    (f"[a]\nurl = '{URL}'\nrows = 'data..items'", "JMESPath"),
    (f"[a]\nurl = '{URL}'\nkey = 'id'", "`key`"),
    (f"[a]\nurl = '{URL}'\nrows = '@'\npick = 'data'", "`pick`"),
    (f"[a]\nurl = '{URL}'\nbody = {{ a = 1 }}", "`body`"),
    (f"[a]\nurl = '{URL}'\nheaders = {{ X-Key = '${{MY KEY}}' }}", "${MY KEY}"),
    (f"[a]\nurl = '{URL}'\nheaders = {{ 'X Key' = 'x' }}", "a.headers.X Key: "),
    (
        f"[a]\nurl = '{URL}'\nheaders = {{ Content-Length = '9' }}",
        "Content-Length",
    ),
    (f'[a]\nurl = "{URL}"\nheaders = {{ X-Key = "a\\nB: c" }}', "a.headers.X-Key: "),
    ("[a]\nurl = 'https://a.example:99999/'", "a.url: Port"),
    (f"[a]\nurl = '{URL}'\ncollection = 'Prices'", "'Prices'"),
    (f"[a]\nurl = '{URL}'\ncollection = 'jobs'", "collection jobs "),
    (f"[a]\nurl = '{URL}'\nschema = {{ type = 'number', minimum = 'x' }}", "a.schema: "),
    (f"[a]\nurl = '{URL}'\nschema = 'missing.json'", "missing.json"),
    (f"[a]\nurl = '{URL}'\nschema = 'no.such.module:Model'", "no.such.module:Model"),
    (f"[a]\nurl = '{URL}'\nschema = 'json:loads'", "json:loads"),
    (
        f"[a]\nurl = '{URL}'\nrows = '@'\npages = {{ by = 'cursor', at = 'next' }}",
        "`parameter`",
    ),
    (f"[a]\nurl = '{URL}'\nrows = '@'\npages = {{ by = 'next' }}", "`at`"),
    (f"url = '{URL}'", "url "),
    (f"[a]\nurl = '{URL}'\nschema = ':Model'", " :Model "),
    (f"[a]\nurl = '{URL}'\nschema = '..a:Model'", " ..a:Model "),
    (f"[a]\nurl = '{URL}'\nschema = {{ '$schema' = 5 }}", "$schema"),
    (f"defaults = '5m'\n[a]\nurl = '{URL}'", "[defaults]"),
    (
        f"['eu-prices']\nurl = '{URL}'\n[eu_prices]\nurl = '{URL}'",
        "eu-prices and eu_prices: ",
    ),
    ("[a]\nurl = 'https://user:secret@a.example/'", "password"),
    ("[a\nurl = 1", "TOML"),
    ("[defaults]\ninterval = '1m'", "no endpoint"),
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
    ({}, "endpoints: "),
    ({"endpoints": "@missing.toml"}, "missing.toml"),
    (
        {"endpoints": "@~unknown/x.toml"},
        "~unknown/x.toml",
    ),
    ({"endpoints": "api.example.org/prices"}, "line 1: 'api.example.org/prices'"),
    ({"endpoints": "https://a.example/", "every": "1m"}, "every: "),
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
    with pytest.raises(UsageError, match="\n  a: MY_KEY"):
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
    with pytest.raises(UsageError, match=r"prices\.url: "):
        EndpointsSpider.check_item(Found("endpoint", "prices", {"interval": "1m"}))
    with pytest.raises(UsageError, match="'prices'"):
        EndpointsSpider.check_item(Found("endpoint", "prices"))


@pytest.mark.parametrize("schema", [{"type": "many"}, {"pattern": "("}, {"$schema": 5}])
def test_a_schema_that_is_none_is_refused_wherever_it_comes_from(schema: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"prices\.schema: "):
        EndpointsSpider.check_item(Found("endpoint", "prices", {"url": URL, "schema": schema}))


def test_what_the_page_shows_of_a_file_can_be_used(tmp_path: Path) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "endpoints.md").read_text("utf-8"), re.M | re.S)
    (tmp_path / "price.json").write_text("{}")
    for block in blocks:
        (tmp_path / "endpoints.toml").write_text(block)
        assert read_endpoints(f"@{tmp_path / 'endpoints.toml'}")
    assert blocks
