"""What the middleware leaves on a request, and what it gives back."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr
from scrapy import Request, Spider, signals
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.breaker.breakers import Breakers
from harvester.breaker.states import BreakerState
from harvester.browser.sign_in import SignIn
from harvester.config import Config
from harvester.exceptions import ServiceError, StateGone
from harvester.fetch.steps import get_steps
from harvester.frontier.scheduler import Scheduler
from harvester.identities.credentials import Credentials
from harvester.internal_meta import LEASE, LEAST_TIER, NOT_BEFORE, RETRY_REASON, TIER, TIER_PROBE
from harvester.middlewares.breaker import BreakerMiddleware
from harvester.middlewares.proxy import ProxyMiddleware
from harvester.outcomes import Outcome, Verdict
from harvester.proxies.budget import BudgetSpent
from harvester.shutdown import RunEnding
from harvester.sites import Registry, Site
from harvester.sites.proxy import SiteProxy
from harvester.sites.proxy_spec import Tier

URL = "https://site.test/page"


class Engine:
    """With no other middleware."""

    running, _slot, spider = True, None, Spider("prober")
    downloader = SimpleNamespace(middleware=SimpleNamespace(middlewares=()))

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def close_spider_async(self, *, reason: str) -> None:
        self.ended.append(reason)


@pytest.fixture
async def make(redis_url: str, tmp_path: Path) -> AsyncIterator[Callable[..., ProxyMiddleware]]:
    made: list[ProxyMiddleware] = []
    (tmp_path / "list").write_text("http://ann:word@10.0.0.1:8080 residential\n")

    def new(name: str, **proxying: Any) -> ProxyMiddleware:
        crawler = get_crawler(Spider)
        crawler.engine = cast(Any, Engine())
        crawler.spider = Spider("prober")
        config = Config(
            redis_url=SecretStr(redis_url), proxies_file=tmp_path / "list", zyte_api_key=SecretStr("api-key")
        )
        site = Site(name=name, hosts=("site.test",), proxy=SiteProxy.model_validate(proxying))
        made.append(ProxyMiddleware(crawler, config, Registry([site])))
        return made[-1]

    yield new
    for middleware in made:
        await middleware.routes.budgets.close()


async def sent(middleware: ProxyMiddleware, request: Request) -> tuple[dict[str, Any], dict[str, str]]:
    """Meta and headers as a download handler sees them."""
    assert await middleware.process_request(request) is None
    send = middleware._crawler.signals.send_catch_log
    send(signals.request_reached_downloader, request=request, spider=None)
    seen = dict(request.meta), {name.decode(): b"".join(told).decode() for name, told in request.headers.items()}
    send(signals.request_left_downloader, request=request, spider=None)
    return seen


async def test_credentials_are_on_a_request_only_while_it_is_in_the_downloader(
    make: Callable[..., ProxyMiddleware], name: str
) -> None:
    middleware, request = make(name, tiers=["residential"], vendor="zyte", country="us"), Request(URL)
    meta, headers = await sent(middleware, request)
    assert meta["proxy"] == "http://api.zyte.com:8011"
    assert set(headers) == {"Proxy-Authorization", "Zyte-Iptype", "Zyte-Geolocation"}
    assert dict(request.headers) == {}
    assert request.meta == {TIER: "residential"}
    way_out = middleware.routes.attempts[request].endpoint
    assert way_out
    assert (way_out.user, way_out.password) == ("api-key", "")


async def test_a_request_that_leaves_the_site_leaves_its_proxy(make: Callable[..., ProxyMiddleware], name: str) -> None:
    middleware, request = make(name, tiers=["residential"], vendor="list"), Request(URL)
    await sent(middleware, request)
    elsewhere = request.replace(url="https://elsewhere.test/")
    meta, headers = await sent(middleware, elsewhere)
    assert (meta, headers) == ({}, {})


@pytest.mark.parametrize(
    ("url", "refused"), [(URL, set[str]()), (URL.replace("https", "http"), {"10.0.0.1:8080"})], ids=["tunnel", "plain"]
)
async def test_what_a_site_says_through_a_tunnel_has_no_proxy_refused(
    make: Callable[..., ProxyMiddleware], name: str, url: str, refused: set[str]
) -> None:
    middleware, request = make(name, tiers=["residential"], vendor="list"), Request(url)
    await sent(middleware, request)
    answer = middleware.process_response(request, Response(url, status=407))
    middleware.routes.judge(request, Verdict(Outcome.PROXY, "HTTP 407"), answer)
    assert middleware.routes.refused == refused


async def test_what_was_taken_for_a_request_that_never_left_is_given_back(
    make: Callable[..., ProxyMiddleware], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The throttle sends a request back to the frontier without a word to the other middlewares."""
    middleware = make(name, tiers=["residential"], vendor="list", budget={"requests": 1})
    request = Request(URL)
    await middleware.process_request(request)
    for _ in range(2):
        later = await middleware.process_request(Request(URL, meta={LEASE: "1"}))
        assert later is not None
        assert time.time() + 9 < later.meta[NOT_BEFORE] < time.time() + 16, "it is not spent yet"
        assert "others" in later.meta[RETRY_REASON][1]
        monkeypatch.setattr(middleware.routes.budgets, "take", no_redis)  # it is known
    monkeypatch.undo()
    middleware.routes.taken_until.clear()  # ten seconds later
    del request
    gc.collect()
    while middleware.routes.budgets._telling:
        await asyncio.wait(middleware.routes.budgets._telling)
    request = Request(URL)
    assert await middleware.process_request(request) is None
    attempt = middleware.routes.attempts[request]
    attempt.received = 1000
    middleware.routes.settle(attempt)
    while middleware.routes.budgets._telling:
        await asyncio.wait(middleware.routes.budgets._telling)
    with pytest.raises(BudgetSpent, match="budget") as spent:
        await middleware.process_request(Request(URL))
    assert middleware.process_exception(Request(URL), spent.value) is None
    later = middleware.process_exception(Request(URL, meta={LEASE: "1"}), spent.value)
    assert later is not None
    assert later.meta[NOT_BEFORE] == pytest.approx(time.time() + spent.value.seconds, abs=10)


async def no_redis(*_: Any) -> Any:
    raise AssertionError("Redis is asked")


def shut(middleware: ProxyMiddleware, *answers: int, **tiers: BreakerState) -> Breakers:
    """Breakers of tiers of its site, and what Redis answers who would be a probe."""
    left = list(answers)

    async def ask(breaker: str) -> int:
        return left.pop(0)

    (site,) = middleware._sites
    breakers = Breakers()
    breakers.ask_redis = ask
    breakers._shut = {f"{site.name}\0{tier}": breaker for tier, breaker in tiers.items()}
    middleware.routes._breakers = lambda: breakers
    return breakers


async def test_a_tier_that_costs_nothing_is_waited_for_when_no_dearer_one_can_be_paid(
    make: Callable[..., ProxyMiddleware], name: str
) -> None:
    middleware = make(name, tiers=["none", "residential"], vendor="list", budget={"requests": 0})
    breakers = shut(middleware, 0, none=BreakerState("open", 1, time.time() + 60))
    for wait_s in (60, 5):  # open; half open, and its probes are out
        later = await middleware.process_request(Request(URL, meta={LEASE: "1"}))
        assert later is not None
        assert later.meta[NOT_BEFORE] == pytest.approx(time.time() + wait_s, abs=3)
        robots = Request(URL)
        assert (await sent(middleware, robots))[0] == {TIER: "none"}
        breakers._shut = {f"{name}\0none": BreakerState("half_open", 2, None)}
    breakers._shut = {}
    assert await middleware.process_request(Request(URL, meta={LEASE: "1"})) is None
    with pytest.raises(BudgetSpent):  # of what escalated
        await middleware.process_request(Request(URL, meta={LEASE: "1", LEAST_TIER: "residential"}))


async def test_a_request_that_went_past_a_tier_comes_back_to_it_and_one_that_climbed_does_not(
    make: Callable[..., ProxyMiddleware], name: str
) -> None:
    middleware = make(name, tiers=["none", "residential"], vendor="list")
    breakers = shut(middleware, none=BreakerState("open", 1, time.time() + 60))
    request = Request(URL, meta={LEASE: "1"})
    assert (await sent(middleware, request))[0][TIER] == "residential"
    breakers._shut = {}
    escalated = request.replace(meta={**request.meta, LEAST_TIER: "residential"})
    for each, tier in ((request, "none"), (escalated, "residential")):
        for _ in range(2):  # then where it is redirected to
            each = each.replace(url=f"{URL}/on")
            assert (await sent(middleware, each))[0][TIER] == tier
            assert middleware.routes.attempts[each].reservation.escalated == (tier == "residential")


async def test_a_probe_of_a_tier_stays_one_where_it_is_redirected_to(
    make: Callable[..., ProxyMiddleware], name: str
) -> None:
    middleware = make(name, tiers=["none", "residential"], vendor="list")
    breakers = shut(middleware, 4, 0, none=BreakerState("half_open", 4, None))
    probe = Request(URL, meta={LEASE: "1"})
    assert (await sent(middleware, probe))[0] == {LEASE: "1", TIER: "none", TIER_PROBE: 4}
    other = Request(URL, meta={LEASE: "2"})
    assert (await sent(middleware, other))[0][TIER] == "residential"
    onward = probe.replace(url=f"{URL}/on")
    assert (await sent(middleware, onward))[0] == {LEASE: "1", TIER: "none", TIER_PROBE: 4}
    crawler: Any = get_crawler(Spider, {"SCHEDULER": Scheduler})
    crawler.engine = SimpleNamespace(scheduler=Scheduler(crawler, middleware.routes._config))
    crawler.engine.scheduler._client = SimpleNamespace(breakers=breakers)
    kept = BreakerMiddleware(crawler)
    get_steps(crawler).judge(onward, Verdict(Outcome.TIMEOUT, ""), None)
    assert kept.breakers is breakers
    assert TIER_PROBE not in onward.meta, "its next try is none"


async def test_a_login_by_a_browser_that_cannot_be_paid_has_not_failed() -> None:
    class Broke(Engine):
        async def download_async(self, request: Request) -> None:
            raise BudgetSpent("the day's budget is spent", 60.0)

    crawler = get_crawler(Spider)
    crawler.engine = cast(Any, Broke())
    table = {"kind": "browser", "browser": {"steps": [{"open": URL}], "success": {"text": "Sign out"}}}
    table["credentials"] = ["A"]
    site = Site.model_validate({"name": "site", "hosts": ["site.test"], "identities": table})
    with pytest.raises(BudgetSpent):
        await SignIn(crawler)(site, Credentials("a", "ann", SecretStr("w")), proxy_session="", storage_state=None)


@pytest.mark.parametrize(("error", "reason"), [(ServiceError, "service_error"), (StateGone, "state_gone")])
async def test_a_request_is_given_back_when_redis_does_not_say_whether_it_may_be_a_probe(
    make: Callable[..., ProxyMiddleware], name: str, error: type[ServiceError], reason: str
) -> None:
    async def ask(breaker: str) -> int:
        assert breaker == f"{name}\0none"
        raise error("Redis is away.")

    middleware = make(name, tiers=["none", "residential"], vendor="list", budget={"requests": 1})
    breakers = Breakers()
    breakers.ask_redis = ask
    breakers._shut = {f"{name}\0none": BreakerState("half_open", 1, None)}
    middleware.routes._breakers = lambda: breakers
    with pytest.raises(RunEnding):
        await middleware.process_request(Request(URL, meta={LEASE: "1"}))
    engine: Any = middleware._crawler.engine
    await asyncio.sleep(0)
    assert engine.ended == [reason]
    request = Request(URL)  # robots.txt, a login: no probe
    assert await middleware.process_request(request) is None
    assert request.meta == {TIER: "residential"}


async def test_it_is_off_when_no_site_has_proxies(make: Callable[..., ProxyMiddleware], name: str) -> None:
    with pytest.raises(NotConfigured):
        make(name, tiers=[Tier.NONE])
