"""A request comes back from the frontier as it was put there, or is refused where it was yielded."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.http import Headers, JsonRequest, Response, TextResponse
from scrapy.utils.request import fingerprint
from twisted.python.failure import Failure

from harvester.config import Config
from harvester.frontier.codec import UnserialisableRequestError, address_of, decode, encode
from harvester.frontier.held import HeldParts
from harvester.internal_meta import FETCHING_PROCESS_ONLY
from harvester.spiders.base import HarvesterSpider, SpiderArguments


class Codec(Spider):
    name = "codec"

    def on_page(self, response: Any) -> None: ...

    def on_failure(self, failure: Any) -> None: ...


class Other(Spider):
    name = "other"


SPIDER = Codec()
AT = datetime(2026, 1, 2, tzinfo=UTC)
ELSEWHERE = timezone(timedelta(hours=-5))
URL = "http://127.0.0.1/page?b=2&a=%7Ex"

REQUESTS: dict[str, Callable[[], Request]] = {
    "plain": lambda: Request(URL),
    "callbacks": lambda: Request(URL, SPIDER.on_page, errback=SPIDER.on_failure),
    "post": lambda: Request(URL, method="POST", body=b"\x00\xff", headers={"X-Two": ["1", "2"], "Accept": "*/*"}),
    "form": lambda: FormRequest(URL, formdata={"parcel": "010-0003"}),
    "json": lambda: JsonRequest(URL, data={"a": [1]}),
    "cookies": lambda: Request(URL, cookies={"session": "x"}),
    "verbose cookies": lambda: Request(URL, cookies=[{"name": "a", "value": "b", "path": "/"}]),
    "rest": lambda: Request(URL, encoding="latin-1", priority=-5, dont_filter=True, flags=["one"]),
    "meta": lambda: Request(
        URL,
        meta={"depth": 1, "none": None, "at": AT, "row": (1, (b"x", 2.5)), "n": 2**63},
    ),
    "times": lambda: Request(URL, meta={"local": AT.replace(tzinfo=None), "there": AT.astimezone(ELSEWHERE)}),
    "cb_kwargs": lambda: Request(URL, SPIDER.on_page, cb_kwargs={"row": {"a": [1, {"b": True}]}}),
    "verbatim": lambda: Request("http://127.0.0.1/a b", meta={"verbatim_url": True}),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_survives_the_frontier_whole(kind: str) -> None:
    request = REQUESTS[kind]()
    back = decode(encode(request, SPIDER), SPIDER)
    expected = request.to_dict(spider=SPIDER)
    expected.pop("_class", None)
    expected.pop("dumps_kwargs", None)
    assert back.to_dict(spider=SPIDER) == expected
    assert str(back.meta) == str(request.meta), "points in time that are equal may name other days"
    assert fingerprint(back) == fingerprint(request)


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)

REFUSED: dict[str, tuple[Callable[[], Request], str]] = {
    "function": (lambda: Request(URL, print), "callback"),
    "method of another": (lambda: Request(URL, Other().parse), "callback"),
    "errback": (lambda: Request(URL, SPIDER.on_page, errback=print), "errback"),
    "object": (lambda: Request(URL, meta={"page": object()}), "meta['page'] "),
    "deep": (lambda: Request(URL, cb_kwargs={"a": [{"b": (print,)}]}), "cb_kwargs['a'][0]['b'][0] "),
    "headers": (lambda: Request(URL, meta={"of": Headers({"A": "b"})}), "meta['of'] "),
    "half a character": (lambda: Request(URL, cb_kwargs={"name": "\ud800"}), "surrogates not allowed"),
    "priority": (lambda: Request(URL, priority=2**64), "can't serialize ints"),
    "flag": (lambda: Request(URL, flags=[object()]), "unsupported"),  # type: ignore[list-item]
    "endless": (lambda: Request(URL, meta={"a": ENDLESS}), "recursion depth"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_request_that_cannot_be_kept_is_refused_and_the_place_named(kind: str) -> None:
    request, said = REFUSED[kind]
    with pytest.raises(UnserialisableRequestError) as caught:
        encode(request(), SPIDER)
    assert said in str(caught.value)
    assert "<GET http://127.0.0.1/page?b=2&a=%7Ex>" in str(caught.value)


def test_a_method_that_is_gone_is_named() -> None:
    data = encode(Request(URL, SPIDER.on_page), SPIDER)
    with pytest.raises(UnserialisableRequestError, match=r"'on_page'.* other "):
        decode(data, Other())


NESTED = b"\x82\xa1u\xa1u\xa1c" + b"\x91" * 100_000 + b"\x90"


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x80", msgspec.msgpack.encode({"u": 1}), b"cos\nsystem\n", NESTED])
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    with pytest.raises(UnserialisableRequestError, match=" read"):
        decode(data, SPIDER)


class Rich(HarvesterSpider):
    name = "rich"

    def parse_item(self, response: Response, depth: int = 0) -> None: ...

    def _private(self, page: TextResponse) -> None: ...

    def __hidden(self, response: Response) -> None: ...

    def went_wrong(self, failure: Failure) -> None: ...

    @property
    def secret(self) -> str:
        raise AssertionError("a name from Redis was evaluated")


RICH = Rich(Config(), SpiderArguments())


def forged(**fields: Any) -> bytes:
    """What somebody who can write to Redis makes up."""
    return msgspec.msgpack.encode({"u": URL, **fields})


@pytest.mark.parametrize("name", ["parse_item", "_private", "_Rich__hidden", "went_wrong"])
def test_methods_that_take_an_answer_or_a_failure_are_callbacks(name: str) -> None:
    method = getattr(RICH, name)
    assert decode(encode(Request(URL, method, errback=method), RICH), RICH).errback == method


NO_CALLBACKS = ["", "__class__", "__init__", "_set_crawler", "close", "closed", "config", "crawler"]
NO_CALLBACKS += ["from_crawler", "logger", "no such", "parse_arguments", "secret", "start", "update_settings"]


@pytest.mark.parametrize("name", NO_CALLBACKS)
@pytest.mark.parametrize("field", ["cb", "eb"])
def test_nothing_else_of_a_spider_can_be_named_from_redis(name: str, field: str) -> None:
    with pytest.raises(UnserialisableRequestError, match=f"'{name}'.* rich "):
        decode(forged(**{field: name}), RICH)


def test_marks_that_let_a_request_past_a_check_do_not_come_out_of_redis() -> None:
    marks = dict.fromkeys(FETCHING_PROCESS_ONLY, "/etc/passwd")
    assert decode(forged(t={**marks, "depth": 3}), RICH).meta == {"depth": 3}


FORGED = [{"u": "no address"}, {"t": "text"}, {"t": [1]}, {"k": {1: 2}}, {"h": [1]}, {"m": {}}, {"f": 7}, {"e": 5}]


@pytest.mark.parametrize("fields", FORGED, ids=str)
def test_what_is_forged_is_refused_and_no_other_error(fields: dict[str, Any]) -> None:
    with pytest.raises(UnserialisableRequestError):
        decode(forged(**fields), RICH)


def test_what_only_one_process_has_is_found_there_and_nowhere_else() -> None:
    here, elsewhere, kept = HeldParts(), HeldParts(), {"open": object(), "depth": 3}
    callback: Callable[..., Any] = lambda response: 7  # noqa: E731
    request = Request(URL, callback, meta=dict(kept), cb_kwargs={"a": print}, priority=2)
    data = encode(request, SPIDER, held=here)
    assert address_of(data) == (URL, 2)
    with pytest.raises(UnserialisableRequestError, match="process"):
        decode(data, SPIDER, elsewhere)
    with pytest.raises(UnserialisableRequestError, match="process"):
        decode(data, SPIDER)
    for _ in range(2):  # once more when it was parked, or given to this process again
        back = decode(data, SPIDER, here)
        assert (back.callback, back.meta, back.cb_kwargs) == (request.callback, kept, {"a": print})
