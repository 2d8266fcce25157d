# mypy: disable-error-code="misc, has-type, unused-ignore, override"
"""Spiders of one feature of Scrapy each. They know nothing of harvester."""

import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import attrs
from itemloaders.processors import Join, MapCompose, TakeFirst
from scrapy import Field, FormRequest, Item, Request, Selector, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import JsonRequest, Response, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.loader import ItemLoader
from scrapy.pipelines import ItemPipelineManager
from scrapy.spiders import CrawlSpider, CSVFeedSpider, Rule, SitemapSpider, XMLFeedSpider

SITE = ""
"""The site's address. The process that crawls sets it."""
HERE = __name__


class Base(Spider):
    """Asks for the paths of `paths`, and yields the title of each page."""

    paths: ClassVar[tuple[str, ...]] = ("/a",)

    async def start(self) -> AsyncIterator[Any]:
        for path in self.paths:
            yield self.request(path)

    def request(self, path: str, **more: Any) -> Request:
        return Request(SITE + path, **more)

    def parse(self, response: Response, **_: Any) -> Any:
        yield {"title": response.css("title::text").get(), "status": response.status}


class StartUrls(Spider):
    """start_urls"""

    @property
    def start_urls(self) -> list[str]:  # type: ignore[override]
        return [SITE + "/a", SITE + "/b"]

    def parse(self, response: Response, **_: Any) -> Any:
        yield {"title": response.css("title::text").get()}


class AsyncStart(Base):
    """async def start"""

    paths = ("/a", "/b")


class ItemsOfStart(Base):
    """items from start"""

    async def start(self) -> AsyncIterator[Any]:
        yield {"title": "of the start"}
        yield self.request("/a")


class Rules(CrawlSpider):
    """CrawlSpider and its rules"""

    rules = (Rule(LinkExtractor(allow=r"/[a-z]$"), callback="parse_page", follow=True),)

    async def start(self) -> AsyncIterator[Any]:
        yield Request(SITE + "/")

    @property
    def allowed_domains(self) -> list[str]:
        return ["127.0.0.1"]

    def parse_page(self, response: Response) -> Any:
        yield {"title": response.css("title::text").get()}


class Sitemap(SitemapSpider):
    """SitemapSpider, by robots.txt"""

    @property
    def sitemap_urls(self) -> list[str]:  # type: ignore[override]
        return [SITE + "/robots.txt"]

    def parse(self, response: Response, **_: Any) -> Any:
        yield {"title": response.css("title::text").get()}


class XmlFeed(XMLFeedSpider):
    """XMLFeedSpider"""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(SITE + "/feed.xml")

    def parse_node(self, response: Response, selector: Selector) -> Any:
        return {"id": selector.xpath("id/text()").get()}


class CsvFeed(CSVFeedSpider):
    """CSVFeedSpider"""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(SITE + "/feed.csv")

    def parse_row(self, response: Response, row: dict[str, str]) -> Any:
        return dict(row)


class Loaded(Item):
    title = Field(output_processor=TakeFirst())
    parts = Field(input_processor=MapCompose(str.strip), output_processor=Join("/"))


class Loader(Base):
    """ItemLoader and its processors"""

    def parse(self, response: Response, **_: Any) -> Any:
        assert isinstance(response, TextResponse)
        loader = ItemLoader(Loaded(), response=response)
        loader.add_css("title", "title::text")
        loader.add_css("parts", "p.x::text")
        yield loader.load_item()


class OwnItem(Item):
    title = Field()


class Items(Base):
    """Item"""

    def parse(self, response: Response, **_: Any) -> Any:
        yield OwnItem(title=response.css("title::text").get())


@dataclass
class DataItem:
    title: str | None


class Dataclasses(Base):
    """items that are dataclasses"""

    def parse(self, response: Response, **_: Any) -> Any:
        yield DataItem(response.css("title::text").get())


@attrs.define
class AttrsItem:
    title: str | None


class Attrs(Base):
    """items of attrs"""

    def parse(self, response: Response, **_: Any) -> Any:
        yield AttrsItem(response.css("title::text").get())


class FollowAll(Base):
    """response.follow_all"""

    def parse(self, response: Response, **_: Any) -> Any:
        assert isinstance(response, TextResponse)
        yield from response.follow_all(css="a", callback=self.parse_next)

    def parse_next(self, response: Response) -> Any:
        yield {"title": response.css("title::text").get()}


class CbKwargs(Base):
    """cb_kwargs of many types"""

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/a", cb_kwargs={"day": date(2026, 1, 2), "price": Decimal("1.50"), "tags": {"x"}})

    def parse(self, response: Response, day: date, price: Decimal, tags: set[str]) -> Any:  # type: ignore[override]
        yield {"day": day.isoformat(), "price": str(price), "tags": sorted(tags)}


class Meta(Base):
    """meta that goes along"""

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/a", meta={"item": OwnItem(title="first")}, callback=self.parse_first)

    def parse_first(self, response: Response) -> Any:
        yield self.request("/b", meta={"item": response.meta["item"]}, callback=self.parse_second)

    def parse_second(self, response: Response) -> Any:
        yield {"first": response.meta["item"]["title"], "title": response.css("title::text").get()}


class Partial(Base):
    """functools.partial as callback"""

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/a", callback=partial(self.parse_with, word="w"))

    def parse_with(self, response: Response, word: str) -> Any:
        yield {"word": word, "status": response.status}


class Lambda(Base):
    """a lambda as callback"""

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/a", callback=lambda response: [{"status": response.status}])


class Echo(Base):
    """Yields what the site was asked."""

    paths = ("/echo",)

    def parse(self, response: Response, **_: Any) -> Any:
        assert isinstance(response, TextResponse)
        yield response.json()


class Forms(Echo):
    """FormRequest"""

    custom_settings: ClassVar[Any] = {"USER_AGENT": "own"}

    async def start(self) -> AsyncIterator[Any]:
        yield FormRequest(SITE + "/echo", formdata={"q": "ä b", "n": ["1", "2"]})


class FilledForms(Echo):
    """FormRequest.from_response, with cookies"""

    custom_settings: ClassVar[Any] = {"USER_AGENT": "own"}

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/login", callback=self.fill)

    def fill(self, response: Response) -> Any:
        assert isinstance(response, TextResponse)
        yield FormRequest.from_response(response, formdata={"user": "ann", "password": "x"})


class JsonBody(Echo):
    """JsonRequest"""

    custom_settings: ClassVar[Any] = {"USER_AGENT": "own"}

    async def start(self) -> AsyncIterator[Any]:
        yield JsonRequest(SITE + "/echo", data={"b": 1, "a": ["ä"]})


class Cookies(Echo):
    """cookies="""

    custom_settings: ClassVar[Any] = {"USER_AGENT": "own"}

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/echo", cookies={"one": "1", "two": "2"})


class CookieJars(Echo):
    """meta["cookiejar"]"""

    custom_settings: ClassVar[Any] = {"USER_AGENT": "own"}

    async def start(self) -> AsyncIterator[Any]:
        for who in ("ann", "bob"):
            yield self.request(f"/login?who={who}", meta={"cookiejar": who}, callback=self.after)

    def after(self, response: Response) -> Any:
        jar = response.meta["cookiejar"]
        yield self.request("/echo", meta={"cookiejar": jar}, dont_filter=True)


class NoCookies(Echo):
    """COOKIES_ENABLED = False"""

    custom_settings: ClassVar[Any] = {"USER_AGENT": "own", "COOKIES_ENABLED": False}

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/login", callback=self.after)

    def after(self, response: Response) -> Any:
        yield self.request("/echo")


class DefaultHeaders(Echo):
    """DEFAULT_REQUEST_HEADERS and USER_AGENT"""

    custom_settings: ClassVar[Any] = {
        "DEFAULT_REQUEST_HEADERS": {"X-Own": "yes", "Accept-Language": "de"},
        "USER_AGENT": "own/1.0",
    }


class HttpAuth(Base):
    """http_user and http_pass"""

    paths = ("/private",)
    http_user, http_pass, http_auth_domain = "ann", "secret", None


class AuthHeader(Base):
    """an Authorization header"""

    async def start(self) -> AsyncIterator[Any]:
        token = base64.b64encode(b"ann:secret").decode()
        yield self.request("/private", headers={"Authorization": f"Basic {token}"})


class Errbacks(Base):
    """errbacks of answers that are errors"""

    async def start(self) -> AsyncIterator[Any]:
        for path in ("/status/404", "/status/410", "/a"):
            yield self.request(path, errback=self.failed)

    def failed(self, failure: Any) -> Any:
        yield {"error": type(failure.value).__name__, "status": failure.value.response.status}


class StatusList(Base):
    """handle_httpstatus_list"""

    paths = ("/status/404", "/status/410")
    handle_httpstatus_list: ClassVar[Any] = [404]


class StatusListOfMeta(Base):
    """meta["handle_httpstatus_list"] and handle_httpstatus_all"""

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/status/404", meta={"handle_httpstatus_list": [404]})
        yield self.request("/status/410", meta={"handle_httpstatus_all": True})


class AllowAll(Base):
    """HTTPERROR_ALLOW_ALL"""

    paths = ("/status/404", "/status/403")
    custom_settings: ClassVar[Any] = {"HTTPERROR_ALLOW_ALL": True}


class Redirects(Base):
    """redirects"""

    paths = ("/moved-twice",)

    def parse(self, response: Response, **_: Any) -> Any:
        yield {"title": response.css("title::text").get(), "times": response.meta["redirect_times"]}


class DontRedirect(Base):
    """meta["dont_redirect"]"""

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/moved", meta={"dont_redirect": True, "handle_httpstatus_list": [302]})


class MetaRefresh(Base):
    """meta refresh"""

    paths = ("/refresh",)


class Retries(Base):
    """RETRY_TIMES"""

    paths = ("/unsteady?who=retries",)
    custom_settings: ClassVar[Any] = {"RETRY_TIMES": 2}


class DontRetry(Base):
    """meta["dont_retry"]"""

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/unsteady?who=dont", meta={"dont_retry": True}, errback=self.failed)

    def failed(self, failure: Any) -> Any:
        yield {"status": failure.value.response.status}


class RetryOfCallback(Base):
    """get_retry_request"""

    paths = ("/a",)
    custom_settings: ClassVar[Any] = {"RETRY_TIMES": 2}

    def parse(self, response: Response, **_: Any) -> Any:
        assert response.request
        if again := get_retry_request(response.request, spider=self, reason="of the callback"):
            yield again
        yield {"retry": response.meta.get("retry_times", 0)}


class Duplicates(Base):
    """duplicates, and dont_filter"""

    async def start(self) -> AsyncIterator[Any]:
        yield self.request("/a")
        yield self.request("/a#part")
        yield self.request("/b", dont_filter=True)
        yield self.request("/b", dont_filter=True)


class Depth(Base):
    """DEPTH_LIMIT and meta["depth"]"""

    custom_settings: ClassVar[Any] = {"DEPTH_LIMIT": 2}

    def parse(self, response: Response, **_: Any) -> Any:
        assert isinstance(response, TextResponse)
        yield {"title": response.css("title::text").get(), "depth": response.meta["depth"]}
        yield from response.follow_all(css="a")


class Offsite(Base):
    """allowed_domains"""

    paths = ("/",)
    allowed_domains: ClassVar[Any] = ["127.0.0.1"]

    def parse(self, response: Response, **_: Any) -> Any:
        assert isinstance(response, TextResponse)
        yield {"title": response.css("title::text").get()}
        if response.url.endswith("/"):
            yield from response.follow_all(css="a")


class Robots(Base):
    """ROBOTSTXT_OBEY"""

    paths = ("/denied", "/a")


class UrlLength(Base):
    """URLLENGTH_LIMIT"""

    custom_settings: ClassVar[Any] = {"URLLENGTH_LIMIT": 60}

    def parse(self, response: Response, **_: Any) -> Any:
        yield {"title": response.css("title::text").get()}
        yield self.request("/b?" + "x" * 60)


class Dropping:
    """A pipeline that drops an item, and changes another."""

    def process_item(self, item: Any) -> Any:
        if item["title"] == "b":
            raise DropItem("b")
        item["seen"] = True
        return item


class Pipelines(Base):
    """ITEM_PIPELINES"""

    paths = ("/a", "/b")
    custom_settings: ClassVar[Any] = {"ITEM_PIPELINES": {f"{HERE}.Dropping": 300}}


class Doubling:
    """A spider middleware that yields each item twice."""

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for each in result:
            yield each
            if isinstance(each, dict):
                yield {**each, "again": True}


class SpiderMiddlewares(Base):
    """SPIDER_MIDDLEWARES"""

    custom_settings: ClassVar[Any] = {"SPIDER_MIDDLEWARES": {f"{HERE}.Doubling": 543}}


class Adding:
    """A downloader middleware that adds a header."""

    def process_request(self, request: Request) -> None:
        request.headers["X-Own"] = "of the middleware"


class DownloaderMiddlewares(Echo):
    """DOWNLOADER_MIDDLEWARES"""

    custom_settings: ClassVar[Any] = {"DOWNLOADER_MIDDLEWARES": {f"{HERE}.Adding": 543}, "USER_AGENT": "own"}


class Answering:
    """A downloader middleware that answers by itself, and ignores a request."""

    def process_request(self, request: Request) -> Response | None:
        if request.url.endswith("/b"):
            return TextResponse(request.url, body=b"<title>made</title>", request=request)
        if request.url.endswith("/c"):
            raise IgnoreRequest("not c")
        return None


class AnswersOfMiddlewares(Base):
    """answers and IgnoreRequest of a middleware"""

    paths = ("/a", "/b", "/c")
    custom_settings: ClassVar[Any] = {"DOWNLOADER_MIDDLEWARES": {f"{HERE}.Answering": 543}}


class CountingDownloader(Downloader):
    """A downloader of the project's."""

    def fetch(self, request: Request, *spider: Any) -> Any:
        assert self.crawler.stats
        if not request.url.endswith(".txt"):
            self.crawler.stats.inc_value("own/pages")
        return super().fetch(request, *spider)


class OwnDownloader(Base):
    """a DOWNLOADER of one's own"""

    paths = ("/a", "/b", "/moved")
    custom_settings: ClassVar[Any] = {"DOWNLOADER": f"{HERE}.CountingDownloader"}


class MarkingProcessor(ItemPipelineManager):
    """An item processor of the project's."""

    async def process_item_async(self, item: Any) -> Any:
        return await super().process_item_async({**item, "is_marked": True})


class OwnItemProcessor(Base):
    """an ITEM_PROCESSOR of one's own"""

    paths = ("/a", "/b")
    custom_settings: ClassVar[Any] = {"ITEM_PROCESSOR": f"{HERE}.MarkingProcessor"}


class Inline(Base):
    """engine.download_async in a callback"""

    async def parse(self, response: Response, **_: Any) -> Any:  # type: ignore[override]
        assert self.crawler.engine
        other = await self.crawler.engine.download_async(self.request("/b"))
        yield {"here": response.css("title::text").get(), "there": other.css("title::text").get()}


class AsyncCallback(Base):
    """async generators as callbacks"""

    async def parse(self, response: Response, **_: Any) -> Any:  # type: ignore[override]
        yield {"title": response.css("title::text").get()}


class Coroutine(Base):
    """coroutines as callbacks"""

    async def parse(self, response: Response, **_: Any) -> Any:  # type: ignore[override]
        return [{"title": response.css("title::text").get()}]


class Idle(Base):
    """spider_idle"""

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.is_late = False
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    def idle(self) -> None:
        if not self.is_late:
            self.is_late = True
            self.crawler.engine.crawl(self.request("/b"))


class Stats(Base):
    """the spider's own stats"""

    def parse(self, response: Response, **_: Any) -> Any:
        assert self.crawler.stats
        self.crawler.stats.inc_value("own/pages")
        yield {"pages": self.crawler.stats.get_value("own/pages")}


class Encodings(Base):
    """encodings of answers"""

    paths = ("/encoded",)


class Compression(Base):
    """compressed answers"""

    paths = ("/zipped",)


class Json(Base):
    """response.json and JMESPath"""

    paths = ("/json",)

    def parse(self, response: Response, **_: Any) -> Any:
        assert isinstance(response, TextResponse)
        yield {"sum": sum(row["n"] for row in response.json()["rows"]), "all": response.jmespath("rows[].n").getall()}


class MaxSize(Base):
    """DOWNLOAD_MAXSIZE"""

    paths = ("/zipped", "/a")
    custom_settings: ClassVar[Any] = {"DOWNLOAD_MAXSIZE": 600}


class Arguments(Base):
    """arguments of the spider"""

    def parse(self, response: Response, **_: Any) -> Any:
        yield {"word": getattr(self, "word", "")}


class NestedItems(Base):
    """items with lists and dicts in them"""

    def parse(self, response: Response, **_: Any) -> Any:
        yield {"list": [1, {"a": None}], "dict": {"b": [True]}}


class Generators(Base):
    """callbacks that return lists, and nothing"""

    paths = ("/a", "/b")

    def parse(self, response: Response, **_: Any) -> Any:
        return [{"title": "a"}] if response.url.endswith("/a") else None


class Broken(Base):
    """a callback that raises"""

    paths = ("/a", "/b")

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        yield {"title": response.css("title::text").get()}
        if response.url.endswith("/b"):
            raise KeyError("of the callback")


def find_features() -> dict[str, type[Spider]]:
    """Returns the spiders, each named after its class."""
    found = {}
    for name, kind in list(globals().items()):
        is_spider = isinstance(kind, type) and issubclass(kind, Spider) and kind.__module__ == HERE
        if is_spider and kind not in (Base, Echo):
            kind.name = name.lower()
            found[name] = kind
    return found
