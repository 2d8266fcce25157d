"""Tiers and budgets of a site, shared by workers through a real Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr, ValidationError
from redis.asyncio import Redis
from scrapy import Spider
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.proxies import budget
from harvester.proxies.budget import Budgets, PassedOver, Reservation, Spent
from harvester.sites import Site
from harvester.sites.proxy import SiteProxy
from harvester.sites.proxy_spec import Geo, Tier

Join = Callable[[], Budgets]
PRICES = {"datacenter": {"usd_per_gb": 1.0}, "residential": {"usd_per_gb": 8.0, "usd_per_request": 0.001}}


@pytest.fixture
async def join(redis_url: str) -> AsyncIterator[Join]:
    """Makes one more worker."""
    async with AsyncExitStack() as stack:

        def make() -> Budgets:
            crawler = get_crawler(Spider)
            crawler.engine = cast(Any, SimpleNamespace(running=True, _slot=None))
            worker = Budgets(crawler, Config(redis_url=SecretStr(redis_url)))
            stack.push_async_callback(worker.close)
            return worker

        yield make


def site_of(name: str, tiers: str = "datacenter", **proxying: Any) -> Site:
    table = {"tiers": tiers.split(), "vendor": "list", **proxying}
    return Site(name=name, hosts=(name,), proxy=SiteProxy.model_validate(table))


async def taken(worker: Budgets, site: Site, least: Tier | None = None) -> Reservation:
    reservation = await worker.take(site, least)
    assert isinstance(reservation, Reservation)
    return reservation


async def told(*workers: Budgets) -> None:
    """Returns when all that workers had to tell is in Redis."""
    for worker in workers:
        while worker._telling:
            await asyncio.wait(worker._telling)


async def test_workers_together_take_no_more_requests_than_the_budget(join: Join, name: str) -> None:
    site, workers = site_of(name, budget={"requests": 25}), [join() for _ in range(3)]
    reservations = await asyncio.gather(*(workers[number % 3].take(site, None) for number in range(60)))
    assert sum(isinstance(reservation, Reservation) for reservation in reservations) == 25
    spent = [reservation for reservation in reservations if isinstance(reservation, Spent)]
    assert {each.what for each in spent} == {"requests"}
    assert all(0 < each.seconds <= 86400 for each in spent)


async def test_what_never_left_is_given_back_once(join: Join, name: str) -> None:
    site, worker = site_of(name, budget={"requests": 1, "megabytes": 1}), join()
    reservation = await taken(worker, site)
    assert isinstance(await worker.take(site, None), Spent)
    worker.settle(reservation, None)
    worker.settle(reservation, None)
    await told(worker)
    await taken(worker, site)
    assert isinstance(await worker.take(site, None), Spent)


async def test_bytes_are_taken_before_they_come_and_put_right_after(
    join: Join, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "UNKNOWN_BYTES", 400_000)
    site, worker = site_of(name, budget={"megabytes": 1}), join()
    reservations = [await taken(worker, site) for _ in range(2)]
    spent = await worker.take(site, None)  # a third may not fit
    assert isinstance(spent, Spent)
    assert not spent.is_final, "what is under way may need less"
    for reservation in reservations:
        worker.settle(reservation, 100_000)
    await told(worker)
    reservations = [await taken(worker, site) for _ in range(8)]  # they are known to be small now
    assert [reservation.taken for reservation in reservations] == [100_000] * 8
    for reservation in reservations:
        worker.settle(reservation, 100_000)
    await told(worker)
    spent = await worker.take(site, None)
    assert isinstance(spent, Spent)
    assert (spent.what, spent.is_final) == ("megabytes", True)


async def test_what_a_lost_worker_took_is_spent(join: Join, name: str, redis_url: str) -> None:
    site, worker = site_of(name, budget={"requests": 1}), join()
    await taken(worker, site)
    spent = await worker.take(site, None)
    assert isinstance(spent, Spent)
    assert not spent.is_final
    async with Redis.from_url(redis_url) as redis:
        await redis.hincrby(f"harvester:{{{name}}}:proxies", "taken_at", -300)
    spent = await worker.take(site, None)
    assert isinstance(spent, Spent)
    assert spent.is_final


NONE, CHEAP, DEAR = Tier.NONE, Tier.DATACENTER, Tier.RESIDENTIAL


async def test_the_cheaper_tiers_are_used_again_while_the_one_that_works_is_passed_over(join: Join, name: str) -> None:
    site, worker = site_of(name, "none datacenter residential"), join()
    worker.works(await taken(worker, site, DEAR))
    await told(worker)
    for passed, leaves_by in (([DEAR], CHEAP), ([CHEAP, DEAR], NONE)):
        reservation = await worker.take(site, None, passed)
        assert isinstance(reservation, Reservation)
        assert reservation.tier is leaves_by
    assert isinstance(await worker.take(site, CHEAP, [CHEAP, DEAR]), PassedOver)
    assert (await taken(worker, site)).tier is DEAR


async def test_money_is_that_of_the_tier(join: Join, name: str, redis_url: str) -> None:
    site, worker = site_of(name, "datacenter residential", budget={"usd": 1.0}, prices=PRICES), join()
    worker.settle(await taken(worker, site), 50_000_000)  # 0.05
    worker.settle(await taken(worker, site, Tier.RESIDENTIAL), 100_000_000)  # 0.8 and 0.001
    await told(worker)
    async with Redis.from_url(redis_url) as redis:
        usd = await redis.hget(f"harvester:{{{name}}}:proxies", "usd")
    assert float(usd or 0) == pytest.approx(0.851)
    assert isinstance(await worker.take(site, Tier.RESIDENTIAL), Spent)  # 75 MB a request by now: 0.6
    await taken(worker, site)  # and 0.075 by the cheap tier


async def test_the_next_day_has_a_budget_of_its_own(join: Join, name: str, redis_url: str) -> None:
    site, worker = site_of(name, budget={"requests": 1}), join()
    yesterday = await taken(worker, site)
    assert isinstance(await worker.take(site, None), Spent)
    async with Redis.from_url(redis_url) as redis:
        await redis.hincrby(f"harvester:{{{name}}}:proxies", "day", -1)
    await taken(worker, site)
    yesterday.day -= 1
    worker.settle(yesterday, None)  # gives nothing back to today
    await told(worker)
    assert isinstance(await worker.take(site, None), Spent)


async def test_a_clock_that_is_set_back_over_midnight_gives_no_second_budget(
    join: Join, name: str, redis_url: str
) -> None:
    """For the script it is the same when the day that Redis has written down is tomorrow."""
    site, worker = site_of(name, budget={"requests": 1}), join()
    await taken(worker, site)
    async with Redis.from_url(redis_url) as redis:
        await redis.hincrby(f"harvester:{{{name}}}:proxies", "day", 1)
    assert isinstance(await worker.take(site, None), Spent)


async def test_a_worker_that_knows_less_than_the_others_chooses_again(join: Join, name: str) -> None:
    site, first, second = site_of(name, "none datacenter residential"), join(), join()
    assert [(await taken(worker, site)).tier for worker in (first, second)] == [NONE, NONE]
    first.works(await taken(first, site, CHEAP))
    await told(first)
    reservation = await taken(second, site)
    assert (reservation.tier, reservation.escalated) == (CHEAP, False)
    reservation = await taken(second, site, DEAR)
    assert reservation.escalated
    for worker in (first, second):
        worker.works(reservation)
    first.works(await taken(first, site, CHEAP))  # the first has not heard of it, and says nothing new
    await told(first, second)
    assert [(await taken(worker, site)).tier for worker in (second, first)] == [DEAR, DEAR]


async def test_a_request_takes_one_round_trip_while_nothing_changes(join: Join, name: str, redis_url: str) -> None:
    site, worker = site_of(name, "none datacenter residential"), join()
    worker.works(await taken(worker, site, DEAR))
    await told(worker)
    async with Redis.from_url(redis_url) as redis:
        before = await redis.info("commandstats")
        for _ in range(5):
            await taken(worker, site)
        after = await redis.info("commandstats")
    assert after["cmdstat_evalsha"]["calls"] == before["cmdstat_evalsha"]["calls"] + 5


async def test_requests_without_a_proxy_cost_nothing(join: Join, name: str) -> None:
    site, worker = site_of(name, "none datacenter", budget={"requests": 0}), join()
    assert {(await taken(worker, site)).tier for _ in range(5)} == {Tier.NONE}
    assert isinstance(await worker.take(site, Tier.DATACENTER), Spent)


async def test_the_tier_that_works_is_remembered_by_all_and_the_cheaper_ones_are_tried_again_one_by_one(
    join: Join, name: str, redis_url: str
) -> None:
    site, first, second = site_of(name, "none datacenter residential"), join(), join()
    assert (await taken(first, site)).tier is Tier.NONE
    first.works(await taken(first, site, Tier.RESIDENTIAL))
    await told(first)
    assert [(await taken(worker, site)).tier for worker in (first, second)] == [Tier.RESIDENTIAL] * 2
    await pass_the_hour(redis_url, name)
    reservations = [await taken(second, site) for _ in range(3)]
    assert [(reservation.tier, reservation.probe) for reservation in reservations] == [
        (Tier.DATACENTER, True),
        (Tier.RESIDENTIAL, False),
        (Tier.RESIDENTIAL, False),
    ]
    second.works(reservations[1])  # says nothing of the cheaper one
    second.works(reservations[0])
    await told(second)
    assert (await taken(first, site)).tier is Tier.DATACENTER
    await pass_the_hour(redis_url, name)
    probe = await taken(first, site)
    assert (probe.tier, probe.probe) == (Tier.NONE, True)  # of which nothing more is heard: it was refused
    assert (await taken(first, site)).tier is Tier.DATACENTER
    await taken(first, site, Tier.RESIDENTIAL)  # what escalated does not come down
    assert (await taken(first, site)).tier is Tier.DATACENTER


async def test_a_cheaper_tier_that_cannot_be_paid_is_tried_when_it_can_be(
    join: Join, name: str, redis_url: str
) -> None:
    site, worker = site_of(name, "datacenter residential", budget={"requests": 1}), join()
    reservation = await taken(worker, site, DEAR)
    worker.works(reservation)
    await told(worker)
    await pass_the_hour(redis_url, name)
    spent = await worker.take(site, None)
    assert isinstance(spent, Spent)
    assert spent.tier is CHEAP
    worker.settle(reservation, None)
    await told(worker)
    probe = await taken(worker, site)
    assert (probe.tier, probe.probe) == (CHEAP, True)


async def pass_the_hour(redis_url: str, name: str) -> None:
    async with Redis.from_url(redis_url) as redis:
        await redis.hincrby(f"harvester:{{{name}}}:proxies", "again_at", -3600)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"tiers": ["datacenter"]}, "vendor"),
        ({"tiers": ["residential", "datacenter"], "vendor": "list"}, "cheapest"),
        ({"tiers": ["datacenter", "datacenter"], "vendor": "list"}, "cheapest"),
        ({"tiers": [], "vendor": "list"}, "tiers"),
        ({"tiers": ["datacenter"], "vendor": "list", "budget": {"usd": 1}}, "price"),
        ({"tiers": ["mobile"], "vendor": "zyte"}, "datacenter.*residential"),
        ({"tiers": ["isp"], "vendor": "brightdata", "country": "us", "state": "ny"}, "residential"),
        ({"tiers": ["isp"], "vendor": "oxylabs", "strict": True}, "sticky"),
        ({"tiers": ["isp"], "vendor": "brightdata", "sticky": "chain", "strict": True}, "pins"),
        ({"tiers": ["isp"], "vendor": "oxylabs", "city": "reno"}, "country"),
        ({"tiers": ["isp"], "vendor": "oxylabs", "places": {"isp": {"city": "reno"}}}, "country"),
        (
            {"tiers": ["isp"], "vendor": "oxylabs", "places": {"mobile": {"country": "us"}}},
            "tiers: mobile",
        ),
        (
            {"tiers": ["isp"], "vendor": "brightdata", "places": {"isp": {"country": "us", "zip": "10001"}}},
            "residential",
        ),
    ],
)
def test_an_entry_that_cannot_be_had_is_refused(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        SiteProxy.model_validate(table)


def test_a_tier_may_stand_elsewhere_than_the_others() -> None:
    places = {"residential": {"country": "us", "state": "oh"}}
    found = SiteProxy.model_validate(
        {"tiers": ["datacenter", "isp", "residential"], "vendor": "brightdata", "country": "ca", "places": places}
    )
    assert found.spec(Tier.DATACENTER).geo == found.spec(Tier.ISP).geo == Geo(country="ca")
    assert found.spec(Tier.RESIDENTIAL).geo == Geo(country="us", state="oh")
