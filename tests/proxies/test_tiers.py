"""A dearer tier is used when a cheaper one is of no use, and only then; and no more of it than the budget allows."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from harvester.config import Config
from harvester.frontier.messages import FrontierStatus
from harvester.frontier.store import Frontier
from harvester.sites.breaker import SiteBreaker
from harvester.stores.redis import connect
from tests.proxies.crawl import Plan, crawl
from tests.proxies.farm import Answer, Asked, Listener, Proxy, Site, Streams
from tests.proxies.setting import SECRETS, USERS, entry, line, nothing_shown

Configured = Callable[[str, str], None]
PAGES = [f"/page/{number}" for number in range(40)]
ALL = '["none", "datacenter", "residential"]'
SOON = {"harvester.proxies.routes.TAKEN_S": 0.2}


@pytest.fixture
async def servers() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def start(servers: AsyncExitStack, *listeners: Listener) -> None:
    for listener in listeners:
        await servers.enter_async_context(listener)


@asynccontextmanager
async def frontier_of(spider: str) -> AsyncIterator[Frontier]:
    redis = connect(Config())
    try:
        yield Frontier(redis, spider)
    finally:
        await redis.aclose()


async def status_of(spider: str) -> FrontierStatus:
    async with frontier_of(spider) as frontier:
        return await frontier.status()


async def leave_alone(site: str, *tiers: str, seconds: float = 3600.0) -> None:
    """Opens breakers of tiers."""
    rules = SiteBreaker(open_seconds=seconds).rules()
    async with frontier_of(site) as frontier:
        for tier in tiers:
            await frontier.set_breaker(f"{site}\0{tier}", rules, "open", "a person")


async def in_redis(redis_url: str) -> str:
    """All that is in Redis, as text."""
    async with Redis.from_url(redis_url) as client:
        redis: Any = client
        reads: dict[bytes, Any] = {
            b"string": redis.get,
            b"hash": redis.hgetall,
            b"set": redis.smembers,
            b"list": lambda key: redis.lrange(key, 0, -1),
            b"zset": lambda key: redis.zrange(key, 0, -1),
            b"stream": redis.xrange,
        }
        found = []
        async for key in redis.scan_iter():
            found.append(f"{key}: {await reads[await redis.type(key)](key)}")
        return "\n".join(found)


async def test_a_site_that_refuses_is_asked_by_the_next_tier_which_is_then_the_first(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site, cheap, dear = Site(refuses=["direct", "cheap"]), Proxy("cheap"), Proxy("dear")
    await start(servers, site, cheap, dear)
    configured(entry(name, site, tiers=ALL), line(cheap, "datacenter") + line(dear, "residential"))
    urls = [site.url + path for path in PAGES]
    first = await crawl(tmp_path, Plan(name, urls[:1]))
    assert [asked.headers.get("x-via", "direct") for asked in site.asked] == ["direct", "cheap", "dear"]
    second = await crawl(tmp_path, Plan(name, urls[1:]))  # another process knows what the first has learnt
    assert {**first.outcomes, **second.outcomes} == dict.fromkeys(urls, "200")
    assert Counter(asked.headers.get("x-via", "direct") for asked in site.asked[3:]) == {"dear": len(urls) - 1}
    assert second.stats[f"harvester/proxies/requests/{name}/residential"] == len(urls) - 1
    nothing_shown(first)
    nothing_shown(second)


async def test_requests_go_past_a_tier_whose_breaker_is_open(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site, cheap, dear = Site(), Proxy("cheap"), Proxy("dear")
    await start(servers, site, cheap, dear)
    configured(entry(name, site, tiers=ALL), line(cheap, "datacenter") + line(dear, "residential"))
    await leave_alone(name, "none", "datacenter")
    urls = [site.url + path for path in PAGES]
    crawled = await crawl(tmp_path, Plan(name, urls, settings={"ROBOTSTXT_OBEY": True}))
    assert crawled.outcomes == dict.fromkeys(urls, "200")
    assert Counter(asked.headers.get("x-via", "direct") for asked in site.asked) == {"dear": len(urls) + 1}
    assert "/robots.txt" in [asked.path for asked in site.asked]


async def test_a_few_requests_go_by_a_tier_that_is_half_open_and_close_its_breaker(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    redirects = {path: Answer(302, b"", {"Location": f"/at{path}"}) for path in PAGES}
    site, cheap, dear = Site(redirects), Proxy("cheap", delay_s=1.0), Proxy("dear")
    await start(servers, site, cheap, dear)
    tiers = '["datacenter", "residential"]'
    configured(entry(name, site, tiers=tiers), line(cheap, "datacenter") + line(dear, "residential"))
    await leave_alone(name, "datacenter", seconds=0.01)
    crawled = await crawl(tmp_path, Plan(name, [site.url + path for path in PAGES]))
    assert crawled.outcomes == dict.fromkeys((f"{site.url}/at{path}" for path in PAGES), "200")
    assert len(cheap.pages()) >= 6, "a probe stays one where it is redirected to"
    at_once = [asked for asked in cheap.asked if asked.at < cheap.asked[0].at + 1]
    assert len(at_once) <= 3, "no more before one was answered"
    assert (await status_of(name)).breakers == {}


async def test_requests_wait_unspent_when_the_breakers_of_all_tiers_are_open(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site, cheap, dear = Site(), Proxy("cheap"), Proxy("dear")
    await start(servers, site, cheap, dear)
    tiers = '["datacenter", "residential"]'
    configured(entry(name, site, tiers=tiers), line(cheap, "datacenter") + line(dear, "residential"))
    await leave_alone(name, "datacenter", "residential")
    plan = Plan(name, [site.url + path for path in PAGES], until=f"harvester/proxies/passed_over/{name}")
    await crawl(tmp_path, plan)
    assert site.asked == []
    status = await status_of(name)
    assert (status.waiting, status.queued, status.dead, status.retried) == (len(PAGES), len(PAGES), 0, 0)


async def test_a_spent_budget_says_nothing_of_a_site_whose_robots_txt_was_to_be_read(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site, dear = Site(), Proxy("dear")
    await start(servers, site, dear)
    configured(entry(name, site, tiers='["residential"]', budget="{requests = 0}"), line(dear, "residential"))
    urls, obeying = [site.url + path for path in PAGES], {"ROBOTSTXT_OBEY": True}
    crawled = await crawl(tmp_path, Plan(name, urls, settings=obeying, until=f"harvester/proxies/spent/{name}"))
    assert "harvester/robots/unreadable" not in crawled.stats
    assert not [stat for stat in crawled.stats if stat.startswith("harvester/errors/")]
    status = await status_of(name)
    assert (status.waiting, status.dead, status.retried) == (len(PAGES), 0, 0)
    assert status.next_due is not None
    left_s = 86400 - time.time() % 86400
    assert status.next_due - time.time() == pytest.approx(left_s, abs=30)
    assert site.asked == []
    configured(entry(name, site, tiers='["residential"]', budget="{requests = 100}"), "")
    async with frontier_of(name) as frontier:  # the next day
        key = f"{frontier.prefix}waiting"
        redis: Any = frontier._redis
        await redis.zadd(key, dict.fromkeys(await redis.zrange(key, 0, -1), 0))
    again = await crawl(tmp_path, Plan(name, (), settings=obeying))
    assert again.outcomes == dict.fromkeys(urls, "200")


async def test_workers_together_stay_within_the_budget_and_nothing_goes_round_it(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site, dear = Site(refuses=["direct"]), Proxy("dear", users=USERS)
    await start(servers, site, dear)
    budget = "{requests = 25, megabytes = 100}"
    configured(entry(name, site, tiers='["residential"]', budget=budget), line(dear, "residential"))
    plans = [
        Plan(f"{name}{number}", [f"{site.url}/{number}{path}" for path in PAGES], leased=False, patches=SOON)
        for number in "ab"
    ]
    both = await asyncio.gather(*(crawl(tmp_path, plan) for plan in plans))
    assert len(dear.pages()) == 25
    assert sum(len(crawled.ended("200")) for crawled in both) == 25
    for crawled in both:
        spent = [outcome for outcome in crawled.outcomes.values() if outcome != "200"]
        assert len(crawled.outcomes) == len(PAGES)
        assert all(re.fullmatch(f"proxy: .* {name} .*: 25 requests", outcome) for outcome in spent)
        assert crawled.log.count("Its requests wait") == bool(spent)
        nothing_shown(crawled)


async def test_requests_that_wait_carry_no_credentials_into_redis(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path, redis_url: str
) -> None:
    """They were sent by a proxy, refused, escalated, and wait for the next day."""
    site, cheap, dear = Site(refuses=["cheap"]), Proxy("cheap", users=USERS), Proxy("dear", users=USERS)
    await start(servers, site, cheap, dear)
    entries = entry(name, site, tiers='["datacenter", "residential"]', budget="{requests = 10}")
    configured(entries, line(cheap, "datacenter") + line(dear, "residential"))
    plan = Plan(name, [site.url + path for path in PAGES], until=f"harvester/proxies/spent/{name}", patches=SOON)
    crawled = await crawl(tmp_path, plan)
    assert cheap.pages()
    assert len(cheap.pages()) + len(dear.pages()) == 10
    status = await status_of(name)
    assert (status.waiting + status.ready, status.dead) == (len(PAGES) - len(crawled.ended("200")), 0)
    everything = await in_redis(redis_url)
    assert f"{site.url}/page/" in everything
    assert not [secret for secret in (*SECRETS, "Proxy-Authorization") if secret in everything]
    nothing_shown(crawled)


async def test_when_all_proxies_refuse_the_credentials_the_run_ends_and_says_so(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site = Site()
    proxies = [Proxy(f"p{number}", users={"someone": "else"}) for number in range(3)]
    await start(servers, site, *proxies)
    configured(entry(name, site, tiers='["datacenter"]'), "".join(line(proxy, "datacenter") for proxy in proxies))
    crawled = await crawl(tmp_path, Plan(name, [site.url + path for path in PAGES]))
    assert crawled.stats["finish_reason"] == "proxy_error"
    assert crawled.stats["harvester/exit_code"] == 5
    assert "password" in crawled.log
    assert site.asked == []
    status = await status_of(name)
    assert (status.dead, status.done) == (0, 0)
    assert status.ready + status.waiting == len(PAGES)
    nothing_shown(crawled)


async def test_requests_wait_for_proxies_that_are_dead_and_go_on_when_one_is_back(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    class Moody(Proxy):
        """It cannot do anything for the first requests."""

        async def answer(self, asked: Asked, streams: Streams) -> bool:
            self.says = Answer(502, b"no", {"X-Error-Description": "no exit found"}) if len(self.asked) <= 3 else None
            return await super().answer(asked, streams)

    site, moody = Site(), Moody("moody")
    await start(servers, site, moody)
    configured(entry(name, site, tiers='["datacenter"]'), line(moody, "datacenter"))
    patches = {"harvester.proxies.pool.FIRST_REST_S": 0.2, "harvester.proxies.pool.LONGEST_REST_S": 0.2}
    crawled = await crawl(tmp_path, Plan(name, [site.url + path for path in PAGES[:3]], patches=patches))
    assert len(crawled.ended("200")) == 3
    assert crawled.stats["harvester/proxies/faults/proxy_capacity"] >= 1
    assert all(asked.headers["x-via"] == "moody" for asked in site.asked)


async def test_an_account_that_is_missing_ends_the_run_before_anything_is_asked(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site = Site()
    await start(servers, site)
    configured(entry(name, site, tiers='["residential"]', vendor='"zyte"'), "")
    crawled = await crawl(tmp_path, Plan(name, [site.url + path for path in PAGES]))
    assert (crawled.stats["finish_reason"], crawled.stats["harvester/exit_code"]) == ("usage_error", 2)
    assert len(re.findall("zyte.*HARVESTER_ZYTE_API_KEY", crawled.log)) == 1
    assert site.asked == []
    status = await status_of(name)
    assert (status.ready + status.waiting, status.dead) == (len(PAGES), 0)


async def test_a_site_is_asked_no_faster_through_many_proxies(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site, proxies = Site(), [Proxy(f"p{number}") for number in range(4)]
    await start(servers, site, *proxies)
    configured(entry(name, site), "".join(line(proxy, "datacenter") for proxy in proxies))
    plan = Plan(name, [site.url + path for path in PAGES])
    crawled = await crawl(tmp_path, plan, requests_per_second="10", concurrent_per_host="4")
    assert len(crawled.ended("200")) == len(PAGES)
    assert all(proxy.pages() for proxy in proxies)
    least_s = (len(PAGES) - 1) / 10
    assert site.asked[-1].at - site.asked[0].at > least_s / 2, "a quarter, if each proxy had a rate of its own"


WELCOME = {
    "/Disclaimer.aspx": Answer(body=b"<html><form action='/agreed'><input name='btAgree'></form></html>"),
    "/agreed": Answer(body=b"<html>Welcome</html>"),
}


def disclaimer(name: str, site: Site) -> str:
    """The entry's table of a site that shows one first."""
    lines = [f'kind = "agree"\n[{name}.identities.form]', f'page = "{site.url}/Disclaimer.aspx"']
    return "\n".join(
        [f"[{name}.identities]", *lines, 'fields = { btAgree = "Agree" }', 'success = { text = "Welcome" }\n']
    )


async def test_a_disclaimer_that_is_refused_is_agreed_to_by_the_next_tier_by_which_the_pages_are_asked_for_then(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site, cheap, dear = Site(WELCOME, refuses=["direct", "cheap"]), Proxy("cheap"), Proxy("dear")
    await start(servers, site, cheap, dear)
    proxies = line(cheap, "datacenter") + line(dear, "residential")
    configured(entry(name, site, tiers=ALL) + disclaimer(name, site), proxies)
    urls = [site.url + path for path in PAGES[:5]]
    crawled = await crawl(tmp_path, Plan(name, urls), state_dir=str(tmp_path / "state"))
    assert crawled.outcomes == dict.fromkeys(urls, "200"), crawled.log
    ways = [(asked.path, asked.headers.get("x-via", "direct")) for asked in site.asked if asked.path in WELCOME]
    assert ways[:3] == [("/Disclaimer.aspx", way) for way in ("direct", "cheap", "dear")]
    assert ways[3:] == [("/agreed", "dear")]
    nothing_shown(crawled)


async def test_a_disclaimer_that_is_refused_to_all_has_an_outcome_and_opens_the_breaker(
    servers: AsyncExitStack, configured: Configured, name: str, tmp_path: Path
) -> None:
    site, cheap = Site(WELCOME, refuses=["direct", "cheap"]), Proxy("cheap")
    await start(servers, site, cheap)
    tables = disclaimer(name, site) + f"[{name}.breaker]\nrefusals_in_a_row = 5\nopen_seconds = 3600\n"
    configured(entry(name, site, tiers='["none", "datacenter"]') + tables, line(cheap, "datacenter"))
    plan = Plan(name, [site.url + path for path in PAGES])
    crawled = await crawl(tmp_path, plan, state_dir=str(tmp_path / "state"), parked_seconds="0")
    assert crawled.stats["finish_reason"] == "parked", crawled.log
    assert crawled.stats["harvester/outcomes/blocked"] >= 5
    breaker = (await status_of(name)).breakers[name]
    assert breaker.state == "open"
    assert re.search("Disclaimer.aspx .*HTTP 403", crawled.log)
    assert {asked.path for asked in site.asked} <= {"/Disclaimer.aspx", "/robots.txt"}
