"""Any function of the project can be a callback; nothing else of a spider can be named from Redis."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import msgspec
import pytest
from scrapy import Request, Spider
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider

from harvester.frontier.codec import UnserialisableRequestError, decode, encode

URL = "http://127.0.0.1/"


def parse_page(res: Any, depth: int = 0) -> str:
    return f"page {res} {depth}"


def noted(function: Any) -> Any:
    @wraps(function)
    def noting(self: Any, *arguments: Any, **more: Any) -> Any:
        return function(self, *arguments, **more)

    return noting


class Parser:
    def parse_part(self, page: Any) -> str:
        return f"part {page}"


class Mixin:
    def parse_mixed(self, r: Any) -> str:
        return f"mixed {r}"


class Books(Mixin, Spider):
    name = "books"

    def __init__(self) -> None:
        super().__init__()
        self.parser = Parser()

    def parse(self, res: Any) -> str:
        return f"parse {res}"

    def book(self, res: Any, more: int = 0) -> str:
        return f"book {res} {more}"

    def __hidden(self, x: Any) -> str:
        return f"hidden {x}"

    def any_arguments(self, *arguments: Any) -> str:
        return f"any {arguments[0]}"

    @noted
    def decorated(self, res: Any) -> str:
        return f"decorated {res}"

    @staticmethod
    def static(res: Any) -> str:
        return f"static {res}"

    @classmethod
    def of_class(cls, res: Any) -> str:
        return f"class {res}"

    def hidden(self) -> Callable[..., str]:
        return self.__hidden

    def no_argument(self) -> None: ...

    def closed(self, reason: str) -> None: ...

    @classmethod
    def update_settings(cls, settings: Any) -> None: ...

    @property
    def secret(self) -> Any:
        raise AssertionError("a name from Redis was evaluated")


SPIDER = Books()

CALLBACKS: dict[str, Callable[..., str]] = {
    "another name": SPIDER.book,
    "parse with another name": SPIDER.parse,
    "private": SPIDER.hidden(),
    "of a mixin": SPIDER.parse_mixed,
    "any arguments": SPIDER.any_arguments,
    "decorated": SPIDER.decorated,
    "static": SPIDER.static,
    "of the class": SPIDER.of_class,
    "of the module": parse_page,
    "of another object": SPIDER.parser.parse_part,
    "partial": partial(SPIDER.book, more=2),
    "partial of a partial": partial(partial(parse_page, depth=1), depth=3),
}


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_callback_of_the_project_is_found_again(name: str) -> None:
    function = CALLBACKS[name]
    back = decode(encode(Request(URL, function, errback=function), SPIDER), SPIDER)
    assert back.callback
    assert back.errback
    assert back.callback("x") == back.errback("x") == function("x")  # type: ignore[arg-type]


class Rules(CrawlSpider):
    name = "rules"
    rules = (Rule(callback="book"),)


@pytest.mark.parametrize("name", ["_callback", "_errback", "parse_start_url", "_parse"])
def test_what_crawl_spiders_call_is_found_again(name: str) -> None:
    method = getattr(Rules(), name)
    assert decode(encode(Request(URL, method), method.__self__), method.__self__).callback == method


def test_what_sitemap_spiders_call_is_found_again() -> None:
    class Sitemaps(SitemapSpider):
        name = "sitemaps"

    spider = Sitemaps()
    request = Request(URL, spider._parse_sitemap)
    assert decode(encode(request, spider), spider).callback == spider._parse_sitemap


def outer() -> Any:
    def inner(response: Any) -> None: ...

    return inner


UNKNOWN = {
    "lambda": lambda response: None,
    "inner": outer(),
    "builtin": print,
    "of another library": msgspec.json.decode,
    "of an object that the spider has not": Parser().parse_part,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_callback_that_is_not_found_again_is_refused(name: str) -> None:
    with pytest.raises(UnserialisableRequestError, match="callback"):
        encode(Request(URL, UNKNOWN[name]), SPIDER)


FORGED = ["closed", "close", "update_settings", "from_crawler", "secret", "no_argument", "__init__", "start", "name"]
FORGED += ["parser", "parser.__init__", "parser.gone", "settings.get", "os:system", "subprocess:run", "builtins:print"]
FORGED += [
    f"{__name__}:CALLBACKS",
    f"{__name__}:pytest.exit",
    f"{__name__}:Books",
    f"{__name__}:Books.__init__",
    ":",
    ".",
]
FORGED += ["harvester.masking:mask", "scrapy.utils.misc:load_object"]


@pytest.mark.parametrize("name", FORGED)
def test_nothing_else_can_be_named_from_redis(name: str) -> None:
    for field in ("cb", "eb"):
        for written in (name, [name, [], {}]):
            with pytest.raises(UnserialisableRequestError):
                decode(msgspec.msgpack.encode({"u": URL, field: written}), SPIDER)
