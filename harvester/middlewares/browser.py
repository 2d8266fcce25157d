"""Downloader middleware: sends the pages of sites that need a browser to one."""

import logging
import time
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler

from harvester.browser.chromium import find_chromium
from harvester.browser.handler import BROWSER
from harvester.browser.render_options import forget_answer, render_options_of
from harvester.browser.sign_in import SignIn
from harvester.components import get_component
from harvester.config import Config, load_config
from harvester.exceptions import BrowserLost, UsageError
from harvester.frontier.waiting import wait_in_frontier
from harvester.identities.browser import BrowserLink
from harvester.internal_meta import BROWSERS_LOST, LEASE, MEDIA, SITE_FILE
from harvester.meta import HANDLER, RENDER
from harvester.outcomes import Outcome, RequestFailed, Verdict
from harvester.shutdown import RunEnding, end, is_ending
from harvester.sites import load_sites

logger = logging.getLogger(__name__)


class BrowserMiddleware:
    """Chooses the handler that downloads a request. A page whose browser crashed is repeated, its attempt unspent.

    On the way back it stands before OutcomeMiddleware, and behind all that hold resources for a request in progress.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._is_there = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        get_component(crawler, BrowserLink).sign_in = SignIn(crawler)
        return cls(crawler, load_config())

    def process_request(self, request: Request) -> None:
        forget_answer(request)  # copied from an earlier attempt or response
        if not is_rendered(request):
            if request.meta.get(HANDLER) == BROWSER:
                del request.meta[HANDLER]
            return
        try:
            render_options_of(request, load_sites().of(request.url))
        except UsageError as error:
            raise RequestFailed(Verdict(Outcome.INVALID, str(error)), 1) from None
        if not self._is_there:
            self._look_for_chromium()
        request.meta[HANDLER] = BROWSER

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, BrowserLost):
            return None
        if is_ending(self._crawler):
            raise RunEnding("the crawl is being stopped")
        self._crawler.stats.inc_value("harvester/browser/pages_lost")
        again = request.replace(dont_filter=True, priority=request.priority + 10)
        again.meta[BROWSERS_LOST] = request.meta.get(BROWSERS_LOST, 0) + 1
        if LEASE not in request.meta:
            return again
        return wait_in_frontier(again, time.time(), Outcome.NAVIGATION_FAILED, str(exception))

    def _look_for_chromium(self) -> None:
        try:
            find_chromium(self._config)
        except UsageError as error:
            logger.error("%s", error)  # noqa: TRY400  the message is complete
            end(self._crawler, error.finish_reason, error.exit_code, str(error))
            raise RunEnding(str(error)) from None
        self._is_there = True


def is_rendered(request: Request) -> bool:
    """Returns True if a browser shows the page: requested by the request, or by its site for all pages."""
    wish = request.meta.get(RENDER)
    if wish is not None:
        return bool(wish)
    if not load_sites().of(request.url).browser.render:
        return False
    # Images, robots.txt and API calls need no browser.
    return not request.meta.get(MEDIA) and SITE_FILE not in request.meta and request.method == "GET"
