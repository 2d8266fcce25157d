"""Operations on a spider's frontier, for the command line and the API. Plain data in and out.

All raise ServiceError when Redis is not available, and UsageError for arguments that cannot be used.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from pymongo.errors import OperationFailure, PyMongoError
from redis.asyncio import Redis
from redis.exceptions import RedisError
from scrapy import Request

from harvester.breaker.alerts import write_down
from harvester.breaker.states import BreakerChange
from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.frontier import frontier_record
from harvester.frontier.fingerprints import fingerprint
from harvester.frontier.messages import BreakerStatus, DeadLetter, Depth, FrontierStatus, RequestStatus, WorkerStatus
from harvester.frontier.start_list import DeadEntry, StartList
from harvester.frontier.store import Frontier
from harvester.items import RECORDS
from harvester.items.other import know_collections
from harvester.sites import load_sites
from harvester.stores import mongodb
from harvester.stores.redis import connect, unavailable

CHUNK = 10_000
"""Number of fingerprints that are forgotten together."""


class Rates(NamedTuple):
    """Requests a second, between two readings."""

    queued: float
    done: float
    skipped: float
    dead: float
    retried: float


class StartStatus(NamedTuple):
    """The start list of a spider."""

    entries: int
    """Number of entries that no worker has taken."""
    taken: dict[str, int]
    """Number of entries that each worker has taken and not confirmed."""
    dead: int


class SitesOf(NamedTuple):
    """The sites of a spider."""

    counts: dict[str, dict[str, int]]
    """Counts of requests by site: ready, parked."""
    breakers: dict[str, BreakerStatus]
    """The breakers that are not closed; names as in FrontierStatus."""


class FrontierReading(NamedTuple):
    """The status of a frontier, and how fast it changes."""

    status: FrontierStatus
    rates: Rates
    start: StartStatus


async def status(config: Config, spider: str, seconds: float = 1.0, start_list: str = "") -> FrontierReading:
    """Reads the frontier twice, some `seconds` apart; returns the second status and the rates.

    `start_list`: name of the start list, if it is not the default.
    """
    async with _redis(config) as redis:
        frontier = Frontier(redis, spider, config.database)
        start = StartList(redis, spider, config.database, name=start_list)
        before = await frontier.status()
        await asyncio.sleep(seconds)
        after = await frontier.status()
        entries = StartStatus(await start.length(), await start.taken(), await start.count_dead())
    counters = [(getattr(before, name), getattr(after, name)) for name in Rates._fields]
    return FrontierReading(after, Rates(*((now - then) / seconds for then, now in counters)), entries)


async def depths(config: Config, spiders: Iterable[str]) -> dict[str, Depth]:
    """Returns the numbers of requests by state for each spider, without spiders that never queued a request."""
    async with _redis(config) as redis:
        found = {spider: await Frontier(redis, spider, config.database).depth() for spider in spiders}
    return {spider: depth for spider, depth in found.items() if depth.queued}


async def workers(config: Config, spiders: Iterable[str]) -> dict[str, dict[str, WorkerStatus]]:
    """Returns the workers by spider."""
    async with _redis(config) as redis:
        return {spider: await Frontier(redis, spider, config.database).who_works() for spider in spiders}


async def sites(config: Config, spiders: Iterable[str]) -> dict[str, SitesOf]:
    """Returns for each spider its sites with requests, and its breakers that are not closed."""
    async with _redis(config) as redis:
        frontiers = {spider: Frontier(redis, spider, config.database) for spider in spiders}
        return {spider: SitesOf(await each.sites(), await each.breakers()) for spider, each in frontiers.items()}


@asynccontextmanager
async def letters(config: Config, spider: str) -> AsyncIterator[AsyncIterator[DeadLetter]]:
    """Yields all dead letters, the latest first, read in chunks since there may be many."""
    async with _frontier(config, spider) as frontier:
        yield frontier.letters()


async def dead(config: Config, spider: str, outcome: str | None = None, most: int = 100) -> list[DeadLetter]:
    """Returns dead letters, the latest first."""
    async with _frontier(config, spider) as frontier:
        return await frontier.dead(outcome, most)


async def dead_entries(config: Config, spider: str, most: int = 100) -> list[DeadEntry]:
    """Returns entries of the start list that could not be used, the latest first."""
    async with _redis(config) as redis:
        return await StartList(redis, spider, config.database).dead(most)


async def replay(config: Config, spider: str, ids: Sequence[str] | None = None, outcome: str | None = None) -> int:
    """Makes dead letters ready again: those with these ids, or that outcome, or all. Returns their number."""
    async with _frontier(config, spider) as frontier:
        return await frontier.replay(ids, outcome)


async def forget(config: Config, spider: str, urls: Iterable[str], job: str = "") -> int:
    """Lets pages that were seen be fetched again. Returns how many were known."""
    numbers = [fingerprint_of(url) for url in urls]
    async with _frontier(config, spider) as frontier:
        return await frontier.forget(numbers, job)


async def forget_matching(config: Config, spider: str, pattern: str, job: str = "") -> int:
    """Forgets every page whose URL contains a match of the regular expression. Returns how many were known.

    URLs are known for requests in the frontier, skipped requests, and pages whose records are stored.
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--pattern: {pattern!r} is no regular expression: {error}.") from None
    async with _frontier(config, spider) as frontier:
        numbers = {number async for number, url in frontier.addresses(job) if expression.search(url)}
        forgotten = await frontier.forget(numbers, job)
        async for urls in _harvested(config, spider, pattern):
            others = {fingerprint_of(url) for url in urls} - numbers
            forgotten += await frontier.forget(others, job)
    return forgotten


async def forget_all(config: Config, spider: str, job: str = "") -> int:
    """Forgets the pages of the job; without a job, all pages and past losses of Redis. Returns the number of pages."""
    async with _frontier(config, spider) as frontier:
        if job:
            return await frontier.forget_all(job)
        await frontier.put_back()
        await frontier.begin_anew()
        forgotten = sum([await frontier.forget_all(each) for each in {"", *await frontier.jobs()}])
    await frontier_record.forget(config, spider)
    return forgotten


async def drop(config: Config, spider: str) -> int:
    """Removes the whole frontier with its seen fingerprints. Returns how many requests it held."""
    async with _frontier(config, spider) as frontier:
        dropped = await frontier.drop()
    await frontier_record.forget(config, spider)
    return dropped


async def set_breaker(
    config: Config,
    spider: str,
    site: str,
    state: str,
    who: str,
    tier: str = "",
    why: str = "",
    for_s: float | None = None,
) -> tuple[int, BreakerChange | None]:
    """Opens, closes or holds the breaker of a site, or of a tier of its proxies; `for_s` limits open and held.

    Returns the number of parked requests, and the change if any. Raises UsageError when the tier has no breaker
    there.
    """
    entry = load_sites().named(site)
    tiers = entry.proxy.tiers
    if tier and (tier not in tiers or len(tiers) == 1):
        raise UsageError(f"{site} has no breaker for the tier {tier!r}; its tiers are {', '.join(tiers)}.")
    async with _frontier(config, spider) as frontier:
        name = f"{site}\0{tier}" if tier else site
        parked, change = await frontier.set_breaker(name, entry.breaker.rules(), state, who, why, for_s)
        if change:
            await write_down(config, spider, change)
            await frontier.told(change)
    return parked, change


async def breakers(config: Config, spider: str) -> dict[str, BreakerStatus]:
    """Returns the breakers that are not closed; names as in FrontierStatus."""
    async with _frontier(config, spider) as frontier:
        return await frontier.breakers()


async def find(config: Config, spider: str, url: str, job: str = "") -> RequestStatus | None:
    """Returns the state of the request for this URL; None if the frontier does not know it."""
    number = fingerprint_of(url)
    async with _frontier(config, spider) as frontier:
        return await frontier.look_up(number, job)


def fingerprint_of(url: str) -> int:
    """Returns the fingerprint of a plain request for this URL. Raises UsageError for an invalid URL."""
    try:
        return fingerprint(Request(url))
    except ValueError:
        raise UsageError(f"{url!r} is no address: give it whole, like https://example.com/page.") from None


@asynccontextmanager
async def _redis(config: Config) -> AsyncIterator[Redis]:
    redis = await asyncio.to_thread(connect, config)
    try:
        yield redis
    except (RedisError, OSError) as error:
        raise unavailable(error) from None
    finally:
        with suppress(RedisError, OSError):
            await redis.aclose()


@asynccontextmanager
async def _frontier(config: Config, spider: str) -> AsyncIterator[Frontier]:
    async with _redis(config) as redis:
        yield Frontier(redis, spider, config.database)


async def _harvested(config: Config, spider: str, pattern: str) -> AsyncIterator[set[str]]:
    """Yields the matching URLs of pages that the spider's records come from, in chunks."""
    database = await asyncio.to_thread(mongodb.connect, config)
    try:
        know_collections(await database.list_collection_names())
        for kind in list(RECORDS.values()):
            match = {"provenance.spider": spider, "provenance.url": {"$regex": pattern}}
            stages: list[dict[str, Any]] = [{"$match": match}, {"$group": {"_id": "$provenance.url"}}]
            urls: set[str] = set()
            async for row in await database[kind.COLLECTION].aggregate(stages, allowDiskUse=True):
                urls.add(row["_id"])
                if len(urls) == CHUNK:
                    yield urls
                    urls = set()
            yield urls
    except PyMongoError as error:
        if isinstance(error, OperationFailure) and error.code == _BAD_EXPRESSION:
            raise UsageError(f"--pattern: MongoDB cannot use {pattern!r}: {error.details}.") from None
        raise mongodb.unavailable(error) from None
    finally:
        await mongodb.disconnect(database)


_BAD_EXPRESSION = 51091
