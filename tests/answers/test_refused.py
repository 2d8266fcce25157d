"""Which answers come to an errback, and are read by nobody before: none whose status somebody asks for."""

from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import TextResponse
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils.test import get_crawler

from harvester.frontier.attempts import attempts_of
from harvester.middlewares.httperror import HttpErrorMiddleware
from harvester.middlewares.outcome import OutcomeMiddleware
from harvester.outcomes import verdict_of


class Patient(Spider):
    """A spider of harvester."""

    name = "patient"
    WAITS_OUT_FAULTS = True


class Asks(Spider):
    name = "asks"
    handle_httpstatus_list = (404,)


@pytest.mark.parametrize(
    ("status", "kind", "settings", "meta", "is_refused"),
    [
        (404, Spider, {}, {}, True),
        (404, Asks, {}, {}, False),
        (410, Asks, {}, {}, True),
        (404, Asks, {}, {"handle_httpstatus_list": [410]}, True),
        (410, Spider, {}, {"handle_httpstatus_list": [410]}, False),
        (410, Spider, {}, {"handle_httpstatus_all": True}, False),
        (404, Spider, {"HTTPERROR_ALLOWED_CODES": [404]}, {}, False),
        (404, Spider, {"HTTPERROR_ALLOW_ALL": True}, {}, False),
        (200, Spider, {}, {}, False),
        (202, Spider, {}, {}, False),
        (204, Spider, {}, {}, False),
        (202, Patient, {}, {}, True),
        (200, Spider, {"HTTPERROR_ALLOW_ALL": True}, {"challenge": True}, True),
    ],
)
async def test_an_answer_that_nobody_asks_for_is_refused(
    status: int, kind: type[Spider], settings: dict[str, Any], meta: dict[str, Any], is_refused: bool
) -> None:
    crawler = get_crawler(settings_dict=settings)
    crawler.spider = kind(name="asks")
    request = Request("http://shop.example/", meta=meta)
    body = "<title>Just a moment...</title>" if meta.get("challenge") else "<html>Some text</html>"
    response = TextResponse(request.url, status, {"Content-Type": "text/html"}, body.encode(), request=request)
    assert await OutcomeMiddleware(crawler).process_response(request, response) is response
    assert attempts_of(crawler).is_refused(request, response) == is_refused
    middleware = HttpErrorMiddleware.from_crawler(crawler)
    if not is_refused:
        middleware.process_spider_input(response)
        return
    with pytest.raises(HttpError) as raised:
        middleware.process_spider_input(response)
    assert raised.value.response is response
    assert verdict_of(raised.value).outcome == {200: "challenge", 202: "invalid", 404: "not_found", 410: "gone"}[status]
