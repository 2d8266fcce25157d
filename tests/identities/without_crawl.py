"""What an identity is given by a crawl, without one: a clock, a way to fetch, a way to wait."""

import asyncio
import time

import aiohttp
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from harvester.identities.login_methods import LoginFailed
from harvester.identities.state import Session


class Clock:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead


async def fetch(request: Request, session: Session, proxy_session: str) -> Response:
    """As the crawl does it."""
    jar = aiohttp.DummyCookieJar()
    try:
        async with aiohttp.ClientSession(cookie_jar=jar, skip_auto_headers=("Content-Type",)) as client:
            while True:
                sent = request.copy()
                session.jar.put_on(sent)
                headers = {str(name): str(value) for name, value in sent.headers.to_unicode_dict().items()}
                headers |= session.headers
                async with client.request(
                    sent.method, sent.url, data=sent.body or None, headers=headers, allow_redirects=False
                ) as answer:
                    given = {name: answer.headers.getall(name, []) for name in ("Set-Cookie", "Retry-After")}
                    response = HtmlResponse(str(answer.url), answer.status, given, await answer.read(), request=request)
                    session.jar.take_in(response, request)
                    if "Location" not in answer.headers:
                        return response
                    request = Request(response.urljoin(answer.headers["Location"]))
    except aiohttp.ClientError as error:
        raise LoginFailed(str(error)) from None


async def pause(seconds: float, host: str) -> None:
    await asyncio.sleep(seconds)
