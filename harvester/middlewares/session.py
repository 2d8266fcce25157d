"""Downloader middleware: who am I on Bluesky? Requests with meta["authenticate"] go out in the name of the account.

A token is put on a request as it leaves, and taken off as soon as its answer is there: on Scrapy's signal, before
any other middleware sees the answer. So it is never in a queue, a redirect or a retry, nor in what a callback sees.
"""

import logging
import time
from collections.abc import Awaitable
from typing import Self, TypeVar
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.http import Response

from harvester.config import Config, load_config
from harvester.exceptions import HarvesterError, StorageError
from harvester.identities.bluesky import Login, is_refusal, origin
from harvester.parsers.bluesky.identity import parse_error
from harvester.shutdown import RunEnding, end, pause

logger = logging.getLogger(__name__)

T = TypeVar("T")

AUTHENTICATE = "authenticate"
"""meta key of requests that want the account's identity. They get it on the account's own PDS only."""
_REPEATED = "harvester_session_repeated"


async def account_origin(crawler: Crawler) -> str | None:
    """Origin of the account's own PDS, to which requests with meta["authenticate"] go; None without a login.

    It logs in when need be. Raises CloseSpider when that is refused, which start() and callbacks let pass.
    """
    middleware = crawler.get_downloader_middleware(SessionMiddleware)
    return await middleware.account_origin() if middleware else None


class SessionMiddleware:
    """Authenticates requests, and repeats once those whose token had ended. Off when no login is configured."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        login = Login.from_config(config, self._pause)
        if login is None:
            raise NotConfigured
        self._login = login
        self._crawler = crawler
        self._sent: WeakKeyDictionary[Request, str] = WeakKeyDictionary()
        crawler.signals.connect(self._take_off, signal=signals.response_downloaded)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    async def account_origin(self) -> str:
        try:
            return (await self._login.session()).pds
        except HarvesterError as error:
            raise CloseSpider(self._report(error)) from None

    async def process_request(self, request: Request) -> None:
        if not request.meta.get(AUTHENTICATE):
            return
        session = await self._or_end(self._login.session())
        self._take_off(request)
        if origin(request.url) == session.pds:
            token = session.access.get_secret_value()
            request.headers["Authorization"] = f"Bearer {token}"
            self._sent[request] = token

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        token = self._sent.pop(request, None)
        if token is None:
            return response
        error = parse_error(response.body) if response.status in (400, 401) else None
        if error is None or not is_refusal(response.status, error[0]):
            self._login.accepted()
            request.meta.pop(_REPEATED, None)
            return response
        self._crawler.stats.inc_value("harvester/session/refused")
        if request.meta.get(_REPEATED):
            return response
        await self._or_end(self._login.renew(token))
        again = request.replace(dont_filter=True, priority=request.priority + 10)
        again.meta[_REPEATED] = True
        return again

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._take_off(request)
        self._sent.pop(request, None)

    def _take_off(self, request: Request) -> None:
        if request.meta.get(AUTHENTICATE):
            request.headers.pop("Authorization", None)

    async def _or_end(self, work: Awaitable[T]) -> T:
        """The result; without a login there is none, and the run ends."""
        try:
            return await work
        except HarvesterError as error:
            end(self._crawler, self._report(error), error.exit_code)
            raise RunEnding(str(error)) from None

    def _report(self, error: HarvesterError) -> str:
        """Say why the run ends; the finish reason."""
        logger.error("%s", error)
        self._crawler.stats.set_value("harvester/exit_code", error.exit_code)
        return "storage_error" if isinstance(error, StorageError) else "session_error"

    async def _pause(self, seconds: float, host: str) -> None:
        if host:
            self._crawler.stats.set_value(f"harvester/waiting/{host}", time.time() + seconds)
        await pause(self._crawler, seconds)
