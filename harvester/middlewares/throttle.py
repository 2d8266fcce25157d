"""Downloader middleware: sends requests no faster than each site allows, and none while a site demands a pause.

Stands nearest the network, so that no other component can send a request past it. Scrapy's own slots cannot hold back
requests that they have queued, and ignore Retry-After and rate-limit headers; so the waiting is done here.
"""

import time
from typing import Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Response

from harvester.browser.render_options import captured_of
from harvester.exceptions import LocalFault
from harvester.frontier.waiting import wait_in_frontier
from harvester.internal_meta import LEASE, SLOT
from harvester.outcomes import Outcome
from harvester.politeness.limiter import HostPaused
from harvester.politeness.throttle import throttle_of
from harvester.sites import load_sites


class ThrottleMiddleware:
    """Sends a request when its slot has come. A request of the frontier waits there through a long pause."""

    def __init__(self, crawler: Crawler) -> None:
        self._throttle = throttle_of(crawler)
        crawler.signals.connect(self._leave, signals.request_scheduled)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | None:
        self._leave(request)
        name = load_sites().of(request.url).name
        limiter = self._throttle.limiter_of(name)
        try:
            await limiter.acquire(name, patient=LEASE not in request.meta)
        except HostPaused as pause:
            until = time.time() + pause.seconds
            return wait_in_frontier(request, until, Outcome.RATE_LIMITED, f"its slot at {name} comes later")
        request.meta[SLOT] = (limiter, name)
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        if slot := request.meta.get(SLOT):
            limiter, name = slot
            latency_s = request.meta.get("download_latency")
            self._throttle.answered(limiter, name, response, captured_of(response), latency_s)
        self._leave(request)  # after the pause has begun, so that no other request slips in
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        slot = request.meta.get(SLOT)
        is_late = isinstance(exception, (DownloadTimeoutError, TimeoutError)) and not LocalFault.behind(exception)
        if slot and is_late:
            self._throttle.timed_out(slot[1])
        self._leave(request)

    def _leave(self, request: Request) -> None:
        """Returns the permit. A request replaced by a middleware nearer the network comes here again."""
        if slot := request.meta.pop(SLOT, None):
            limiter, name = slot
            limiter.release(name)
