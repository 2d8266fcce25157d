"""A site whose entry says so is asked by HTTP/2, and fails as any other does; no other site is touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crawling import Crawled, Plan, crawl
from tests.sandbox.street_plan import HousePlan
from tests.sandbox.street_process import Street

HTTP2 = "[.http]\nhttp2 = true"
FEW_TRIES = {"HARVESTER_BACKOFF_FACTOR": 0.01}


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    """Sites that speak HTTP/2 only but `old` and `plain`; all but `unregistered` want it."""
    plans = [
        HousePlan("modern", scheme="h2"),
        HousePlan("unregistered", scheme="h2"),
        HousePlan("old", scheme="https"),
        HousePlan("plain"),
        HousePlan("broken", "blocking", "h2", refusal="reset"),
        HousePlan("traps", "traps", "h2"),
        HousePlan("dead", "down", "h2", refusal="refuse"),
    ]
    with Street(plans, tmp_path / "street") as street:
        yield street


async def asked(street: Street, folder: Path, *urls: str) -> Crawled:
    """What comes of these addresses."""
    sites = street.register(folder / "sites", {name: HTTP2 for name in street.plans if name != "unregistered"})
    (sites / "nobody.toml").write_text('[nobody]\nhosts = ["nobody.invalid"]\n' + HTTP2.replace("[.", "[nobody."))
    settings = {"DOWNLOAD_TIMEOUT": 5, **FEW_TRIES}
    variables = {"sites_dir": str(sites), "requests_per_second": "0", "max_response_mb": "1"}
    return await crawl(Plan(list(urls), settings=settings), folder, **variables)


async def test_a_site_that_wants_http2_is_asked_by_it_and_no_other_is(street: Street, tmp_path: Path) -> None:
    pages = [street.url("modern", f"/page/{number}") for number in range(30)]
    old, plain, other = (street.url(name, "/page/1") for name in ("old", "plain", "unregistered"))
    crawled = await asked(street, tmp_path, *pages, old, plain, other)
    assert [result.status for page in [*pages, old, plain] for result in crawled.of(page)] == [200] * 32
    assert crawled.of(other)[0].outcome == "invalid"  # it got HTTP/1.1, and answered in HTTP/2
    assert len(street.log("modern")) == 31  # with robots.txt
    assert len(street.log("unregistered")) == 0


async def test_http2_that_fails_comes_to_a_clear_outcome(street: Street, tmp_path: Path) -> None:
    expected = {
        street.url("broken", "/page/1"): "network",  # GOAWAY
        street.url("dead", "/page/1"): "network",  # nobody listens
        "https://nobody.invalid/page/1": "dns",
        street.url("traps", "/trap/cut"): "network",  # RST_STREAM in the middle of the body
        street.url("traps", "/trap/silent"): "timeout",
        street.url("traps", "/trap/bomb"): "invalid",  # too large
        street.url("traps", "/trap/loop"): "invalid",
    }
    crawled = await asked(street, tmp_path, *expected)
    assert {result.url: result.outcome for result in crawled.results} == expected, crawled.results
    assert crawled.stats.get("harvester/unclassified", 0) == 0, crawled.log
