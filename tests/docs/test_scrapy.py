"""docs/scrapy.md: its commands are run, and each row of its table is held to what it says."""

import asyncio
import json
import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from redis import Redis
from scrapy import Request, Spider
from scrapy.downloadermiddlewares import cookies
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler
from scrapy_redis.spiders import RedisSpider
from tldextract import TLDExtract

from harvester.addon import Addon
from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.frontier.codec import UnserialisableRequestError, decode, encode
from harvester.frontier.held import HeldParts
from harvester.frontier.retries import NEVER, ProjectRetries
from harvester.frontier.scheduler import Scheduler
from harvester.politeness.throttle import as_the_project_sets
from harvester.spiders import stock
from harvester.spiders.stock import StockSpiders
from tests.crawling import Answer, Site, until
from tests.docs.conftest import Ended, House
from tests.docs.test_docs import DOCS
from tests.forking import fork
from tests.root import ROOT

PAGE = (DOCS / "scrapy.md").read_text("utf-8")
SETTINGS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
COMMANDS = [line.partition("#")[0] for line in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()]
_, *ROWS = re.findall(r"^\| (.+?) \| ", PAGE.partition("## What becomes")[2].partition("\n## ")[0], re.MULTILINE)
HELD_BY = re.findall(r"`(tests/\S+)::(\w+)`", PAGE)
HTML = "text/html; charset=utf-8"

SHOP = """
import json
import os

from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.spiders import Rule
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider

SITE = "{site}"


class KeepPipeline:
    def process_item(self, item):
        if isinstance(item, dict):
            with open("{folder}/kept.jsonl", "a") as file:
                file.write(json.dumps(item) + "\\n")
        return item


class Known:
    def process_request(self, request):
        if request.url.endswith("/old"):
            raise IgnoreRequest("stored last week")


class ShopSpider(Spider):
    name = "shop"
    http_user, http_pass, http_auth_domain = "me", "mine", SITE.removeprefix("http://")
    handle_httpstatus_list = [404]
    custom_settings = {{"DEPTH_LIMIT": 2, "SCHEDULER_PERSIST": True,
                       "DOWNLOADER_MIDDLEWARES": {{"shop.Known": 1}}}}

    async def start(self):
        yield Request(SITE + "/1")
        yield Request(SITE + "/missing", self.parse_status)
        yield Request(SITE + "/mentioned", self.parse_status, meta={{"handle_httpstatus_list": [410]}})
        yield Request(SITE + "/gone", self.parse_status, errback=self.failed)
        yield Request(SITE + "/broken", errback=self.failed, meta={{"dont_retry": True}})
        yield Request("ftp://127.0.0.1/", self.parse_status, errback=self.failed)
        yield Request(SITE + "/cookies", self.parse_status, cookies={{"flavour": "lemon"}})
        yield Request(SITE + "/refresh", self.parse_status)
        yield Request(SITE + "/old", self.parse_status)
        yield Request("http://nowhere.example/", self.parse_status,
                      meta={{"proxy": SITE.removeprefix("http://"), "dont_obey_robotstxt": True}})

    def parse(self, response):
        yield {{"path": response.url.removeprefix(SITE), "depth": response.meta["depth"]}}
        yield from response.follow_all(css="a")

    def parse_status(self, response):
        yield {{"path": response.url.removeprefix(SITE), "status": response.status}}

    def failed(self, failure):
        if failure.check(HttpError):
            yield {{"path": failure.request.url.removeprefix(SITE), "refused": failure.value.response.status}}
        else:
            yield {{"path": "nowhere", "outcome": str(failure.value.verdict.outcome)}}


class FedSpider(RedisSpider):
    name = "fed"
    redis_key = "todo:%(name)s"

    def parse(self, response):
        request = response.request
        yield {{"fed": response.url.removeprefix(SITE), "method": request.method, "page": response.meta.get("page"),
               "body": request.body.decode()}}


class BagSpider(RedisSpider):
    name = "bag"
    custom_settings = {{"REDIS_START_URLS_AS_SET": True, "REDIS_START_URLS_KEY": "%(name)s:all",
                       "MAX_IDLE_TIME_BEFORE_CLOSE": 0}}

    def make_request_from_data(self, data):
        for name in data.decode().split():
            yield Request(SITE + "/" + name, dont_filter=True)

    def parse(self, response):
        yield {{"bag": response.url.removeprefix(SITE)}}


class DyingSpider(RedisSpider):
    name = "dying"

    def make_request_from_data(self, data):
        if data == b"die" and not os.path.exists("died"):
            open("died", "w").close()
            os.kill(os.getpid(), 9)
        return Request(SITE + "/" + data.decode(), dont_filter=True)

    def parse(self, response):
        yield {{"outlived": response.url.removeprefix(SITE)}}


class QueueSpider(RedisCrawlSpider):
    name = "queue"
    custom_settings = {{"REDIS_START_URLS_AS_ZSET": True, "CONCURRENT_REQUESTS": 1}}
    rules = [Rule(LinkExtractor(), callback="parse_page")]

    def parse_page(self, response):
        yield {{"followed": response.url.removeprefix(SITE), "text": response.meta["link_text"]}}


class LooseSpider(Spider):
    name = "loose"
    start_urls = [SITE + "/1"]
    custom_settings = {{"ITEM_PIPELINES": {{}}}}

    def parse(self, response):
        yield {{"path": "loose"}}
"""
ONLY = {
    "scrapy.cfg": "[settings]\ndefault = settings\n",
    "settings.py": 'SCHEDULER = "harvester.frontier.scheduler.Scheduler"\nSPIDER_MODULES = ["loose"]\n',
    "loose.py": "from scrapy import Spider\n\nclass Loose(Spider):\n    name = 'loose'\n    start_urls = ['data:,1']\n",
}


def pages() -> dict[str, list[Answer]]:
    """Each page leads to the next."""
    linked = {f"/{n}": [Answer(body=f'<a href="/{n + 1}">to {n + 1}</a>'.encode(), kind=HTML)] for n in range(1, 5)}
    refresh = b'<meta http-equiv="refresh" content="0; url=/refreshed">'
    refused = {"/missing": [Answer(404)], "/gone": [Answer(410)], "/broken": [Answer(500)]}
    refused["/mentioned"] = [Answer(410, headers={"Set-Cookie": "a=b"})]
    return linked | refused | {"/refresh": [Answer(body=refresh, kind=HTML)]}


class Seen(NamedTuple):
    """What came of the runs."""

    site: Site
    kept: list[dict[str, Any]]
    """Items, as the project's own pipeline had them."""
    in_redis: list[dict[str, Any]]
    """Items of the spider shop, as scrapy-redis's pipeline had them."""
    shop: Ended
    waiting: str
    """What `harvester frontier status fed` says before."""
    dead: str
    """What `harvester frontier dead fed` says."""
    loose: Ended
    only: Ended
    stored: list[dict[str, Any]]
    stored_loose: list[dict[str, Any]]
    """Items of the spider shop, in MongoDB."""

    def has(self, **item: Any) -> bool:
        return item in self.kept


def prepared(given: dict[str, Any], spider: type[Spider] = Spider) -> None:
    settings = Settings()
    settings.setmodule("harvester.settings")
    settings.setdict(given, "cmdline")
    Addon.update_pre_crawler_settings(settings)
    stock.prepare(settings, type("Own", (spider,), {"name": "own", "__module__": "own"}))


def refused(*names: str, spider: type[Spider] = Spider, **given: Any) -> bool:
    """Whether the sentence names it."""
    with pytest.raises(UsageError) as error:
        prepared(given, spider)
    return all(name in str(error.value) for name in (*names, *given))


class _Own(Spider):
    name = "own"

    def parse_page(self, page: str) -> None:
        pass


def _as_callback(page: Any) -> None: ...


def comes_back(**attributes: Any) -> bool:
    """Whether a request is after the frontier what it was before."""
    spider = _Own()
    back = decode(encode(Request("http://example.com", **attributes), spider), spider)
    return all(getattr(back, name) == value for name, value in attributes.items())


def is_held_or_refused(**attributes: Any) -> bool:
    spider, held, request = _Own(), HeldParts(), Request("http://example.com", **attributes)
    with pytest.raises(UnserialisableRequestError):
        encode(request, spider)
    back = decode(encode(request, spider, held=held), spider, held)
    return all(getattr(back, name) == value for name, value in attributes.items())


class _Older(Spider):
    def start_requests(self) -> Iterator[Request]:
        yield Request("http://example.com")


class _Popping(RedisSpider):  # type: ignore[misc]
    def next_requests(self) -> Iterator[Request]:
        yield Request("http://example.com")


_Older.__module__ = _Popping.__module__ = "own"


def idles() -> bool:
    crawler = get_crawler(settings_dict={"SCHEDULER_IDLE_BEFORE_CLOSE": 7})
    return (Scheduler(crawler, Config()).idle_seconds, Scheduler(crawler, Config(idle_seconds=9)).idle_seconds) == (
        7,
        9,
    )


def bound_of(**settings: Any) -> int | None:
    """How often a request is tried again that was answered with 500."""
    request = Request("http://shop.example/")
    return ProjectRetries(Settings(settings)).bound(request, Response(request.url, 500), retries=5)


def warned_of(*names: str) -> bool:
    heard: list[str] = []

    class Hears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    handler = Hears()
    logging.getLogger("harvester.spiders.stock").addHandler(handler)
    try:
        prepared(dict.fromkeys(names, "mine"))
    finally:
        logging.getLogger("harvester.spiders.stock").removeHandler(handler)
    return [line.split()[0] for line in heard] == list(names)


def only_priorities() -> bool:
    prepared({"SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.PriorityQueue"})
    return refused(SCHEDULER_QUEUE_CLASS="scrapy_redis.queue.LifoQueue")


CLAIMS: dict[str, Callable[[Seen], bool]] = {
    "`Spider`, `CrawlSpider`": lambda seen: seen.shop.code == 0 and seen.has(followed="/4", text="to 4"),
    "`RedisSpider`, `RedisCrawlSpider`": lambda seen: seen.has(fed="/5", method="GET", page=None, body=""),
    "`REDIS_START_URLS_KEY`, `redis_key`": lambda seen: (
        any("fed" in item for item in seen.kept) and re.search(r"^.*start list.*\b3\b", seen.waiting, re.M) is not None
    ),
    "`REDIS_START_URLS_AS_SET`": lambda seen: seen.has(bag="/bread"),
    "`REDIS_START_URLS_AS_ZSET`": lambda seen: (
        [each.path for each in seen.site.arrivals if each.path.startswith("/score")]
        == ["/score3", "/score2", "/score1"]
    ),
    "entries that are JSON": lambda seen: (
        seen.has(fed="/posted", method="POST", page=7, body="colour=red") and "{}" in seen.dead
    ),
    "`MAX_IDLE_TIME_BEFORE_CLOSE`": lambda seen: seen.has(bag="/later"),
    "`SCHEDULER_IDLE_BEFORE_CLOSE`": lambda _: idles(),
    "`SCHEDULER_PERSIST = True`": lambda seen: seen.site.count("/2") == 1,
    "`SCHEDULER_PERSIST = False`": lambda _: refused(SCHEDULER_PERSIST=False),
    "`SCHEDULER_FLUSH_ON_START`": lambda _: refused("harvester frontier drop own", SCHEDULER_FLUSH_ON_START=True),
    "`SCHEDULER` exchanged, and nothing else": lambda seen: (
        seen.only.code == 2 and seen.only.log.splitlines()[-1].startswith("SCHEDULER ")
    ),
    "`SCHEDULER` of scrapy-redis": lambda _: refused(SCHEDULER="scrapy_redis.scheduler.Scheduler"),
    "`SCHEDULER_QUEUE_CLASS`": lambda _: only_priorities(),
    "`SCHEDULER_QUEUE_KEY`, `SCHEDULER_DUPEFILTER_KEY`, `SCHEDULER_SERIALIZER`": lambda _: warned_of(
        "SCHEDULER_QUEUE_KEY", "SCHEDULER_DUPEFILTER_KEY", "SCHEDULER_SERIALIZER"
    ),
    "`RETRY_ENABLED`, `RETRY_TIMES`, `RETRY_HTTP_CODES`, `RETRY_EXCEPTIONS`, `RETRY_PRIORITY_ADJUST`": lambda _: (
        bound_of(RETRY_TIMES=7) == bound_of(RETRY_HTTP_CODES=[500], RETRY_TIMES=7, RETRY_PRIORITY_ADJUST=1) == 7
        and bound_of(RETRY_HTTP_CODES=[502]) == bound_of(RETRY_ENABLED=False) == NEVER
        and bound_of(RETRY_EXCEPTIONS=[]) is None
    ),
    "`DOWNLOAD_FAIL_ON_DATALOSS`": lambda _: warned_of("DOWNLOAD_FAIL_ON_DATALOSS"),
    "`DOWNLOAD_DELAY`, `CONCURRENT_REQUESTS_PER_DOMAIN`": lambda _: (
        as_the_project_sets(Config(), Settings({"DOWNLOAD_DELAY": 4})).requests_per_second == 0.25
    ),
    "a `DUPEFILTER_CLASS` of one's own": lambda _: warned_of("DUPEFILTER_CLASS"),
    "`ITEM_PIPELINES`, `EXTENSIONS`, `SPIDER_MIDDLEWARES`, `DOWNLOADER_MIDDLEWARES`": lambda seen: (
        seen.loose.code == 0 and [row["path"] for row in seen.stored_loose] == ["loose"]
    ),
    "`REDIS_URL`, `REDIS_HOST`, `REDIS_PORT`, `REDIS_DB`, `REDIS_PARAMS` in settings": lambda _: all(
        refused(f"REDIS_{name}", spider=Spider, **{f"REDIS_{name}": "1"})
        for name in ("URL", "HOST", "PORT", "DB", "PARAMS")
    ),
    "`STATS_CLASS` of scrapy-redis": lambda _: refused(STATS_CLASS="scrapy_redis.stats.RedisStatsCollector"),
    "`start_requests`": lambda _: refused("start_requests", spider=_Older),
    "own `next_requests` and the like": lambda _: refused("next_requests", spider=_Popping),
    "`make_request_from_data`": lambda seen: seen.has(bag="/bread") and seen.has(bag="/milk"),
    "items that are dicts": lambda seen: (
        seen.has(path="/1", depth=0)
        and "11 items" in seen.shop.log
        and sorted(row["path"] for row in seen.stored) == sorted(item["path"] for item in seen.kept if "path" in item)
    ),
    "`RedisPipeline`": lambda seen: {"path": "/1", "depth": 0} in seen.in_redis,
    "`cookies=`": lambda seen: "lemon" in seen.site.heads["/cookies"][0],
    '`meta["proxy"]`': lambda seen: seen.has(path="http://nowhere.example/", status=200),
    "`http_user`, `http_pass`, `http_auth_domain`": lambda seen: "Authorization: Basic" in seen.site.heads["/1"][0],
    '`DEPTH_LIMIT`, `meta["depth"]`': lambda seen: seen.has(path="/3", depth=2) and not seen.has(path="/4", depth=3),
    "`handle_httpstatus_list`, `handle_httpstatus_all`, `HTTPERROR_ALLOWED_CODES`": lambda seen: (
        seen.has(path="/missing", status=404) and seen.has(path="/mentioned", status=410)
    ),
    "`IgnoreRequest` of a middleware": lambda seen: (
        seen.site.count("/old") == 0 and "policy denied" not in seen.shop.log and "2 errors (" in seen.shop.log
    ),
    '`meta["dont_retry"]`': lambda seen: (
        seen.has(path="/broken", refused=500) and seen.site.count("/broken") == 1 and "1 server error" in seen.shop.log
    ),
    "`HttpError` in an errback": lambda seen: (
        seen.has(path="/gone", refused=410) and seen.has(path="nowhere", outcome="invalid")
    ),
    "meta refresh": lambda seen: seen.has(path="/refreshed", status=200),
    "callbacks": lambda _: comes_back(callback=_as_callback),
    "`meta` and `cb_kwargs`": lambda _: comes_back(meta={"page": {1, date(2026, 1, 1), Decimal(1)}}),
    "what has no name and cannot be written (a lambda, a loader, an open file)": lambda _: is_held_or_refused(
        callback=lambda response: None, meta={"file": sys.stdin}
    ),
}


async def test_every_row_of_the_page_holds_and_its_commands_run(house: House) -> None:
    assert list(CLAIMS) == ROWS
    async with Site(pages()) as site:
        seen = await look(house, site)
    wrong = [row for row in ROWS if not CLAIMS[row](seen)]
    assert not wrong, f"{wrong}\n{seen.kept}\n{seen.shop.out}\n{seen.shop.log}\n{seen.dead}\n{seen.loose}\n{seen.only}"


@pytest.mark.parametrize(("file", "test"), HELD_BY)
def test_each_row_names_a_test_that_is_there(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)


async def test_entries_outlive_the_worker_that_has_taken_them_and_is_killed(house: House) -> None:
    house.environment.update(HARVESTER_LEASE_SECONDS="1")
    with Redis.from_url(house.environment["HARVESTER_REDIS_URL"]) as redis:
        redis.rpush("dying:start_urls", "a", "die", "b")
    async with Site() as site:
        write(house, site)
        killed = await house.run("scrapy crawl dying")
        assert killed.code == -signal.SIGKILL, killed.log
        await house.runs("scrapy crawl dying")
    assert sorted(item["outlived"] for item in kept(house.folder)) == ["/a", "/b", "/die"]


def test_a_project_that_keeps_cookies_has_no_list_of_domains_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(session: requests.Session, method: str, url: str, **_: Any) -> None:
        fetched.append(url)
        raise requests.ConnectionError("nobody is to be asked")

    monkeypatch.setattr(requests.Session, "request", fetch)
    as_scrapy = TLDExtract(include_psl_private_domains=True, cache_dir=None)
    monkeypatch.setattr(cookies, "_split_domain", as_scrapy)
    StockSpiders.from_crawler(get_crawler(settings_dict={"COOKIES_ENABLED": True}))
    assert [cookies._is_public_domain(name) for name in ("co.uk", "shop.co.uk", "github.io")] == [True, False, True]
    assert fetched == []


async def look(house: House, site: Site) -> Seen:
    """Runs the commands of the page, and spiders with start lists of each kind."""
    house.environment.update(HARVESTER_MAX_ERROR_RATIO="1")
    write(house, site)
    below = house._replace(folder=house.folder / "below")
    below.folder.mkdir()
    only = house._replace(folder=house.folder / "only")
    only.folder.mkdir()
    for name, text in ONLY.items():
        (only.folder / name).write_text(text)

    with Redis.from_url(house.environment["HARVESTER_REDIS_URL"]) as redis:
        crawl, *commands = COMMANDS
        shop = await house.run(crawl)
        for command in commands:  # a second run, in a folder below that of scrapy.cfg
            await below.runs(command)
        posted = {"url": f"{site.url}/posted", "method": "POST", "meta": {"page": 7}, "colour": "red"}
        redis.rpush("todo:fed", f"{site.url}/5", json.dumps(posted), "{}")
        waiting = await house.runs("harvester frontier status fed")
        await house.runs("scrapy crawl fed")
        redis.zadd("queue:start_urls", {f"{site.url}/score{n}": n for n in (1, 2, 3)} | {f"{site.url}/3": 9})
        await house.runs("scrapy crawl queue")
        await wait_for_more(house, redis)
        in_redis = [json.loads(item) for item in redis.lrange("shop:items", 0, -1)]
        loose, alone = await house.run("scrapy crawl loose"), await only.run("scrapy crawl loose")
        dead = await house.runs("harvester frontier dead fed")
    stored, stored_loose = (list(house.database[name].find()) for name in ("shop", "loose"))
    return Seen(site, kept(house.folder), in_redis, shop, waiting, dead, loose, alone, stored, stored_loose)


def write(house: House, site: Site) -> None:
    """The project, with the settings of the page."""
    (house.folder / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    (house.folder / "settings.py").write_text(f"{SETTINGS}\nMAX_IDLE_TIME_BEFORE_CLOSE = 1\n")
    (house.folder / "shop.py").write_text(SHOP.format(site=site.url, folder=house.folder))


async def wait_for_more(house: House, redis: "Redis") -> None:
    """A spider that has dealt with its start list is given another entry, and then told to end."""
    redis.sadd("bag:all", "bread milk")
    scrapy = str(Path(sys.executable).with_name("scrapy"))
    process = await fork(scrapy, "crawl", "bag", cwd=house.folder, env=house.environment)
    try:
        await until(lambda: {"bag": "/milk"} in kept(house.folder))
        redis.sadd("bag:all", "later")
        await until(lambda: {"bag": "/later"} in kept(house.folder))
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), 240)


def kept(folder: Path) -> list[dict[str, Any]]:
    file = folder / "kept.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
