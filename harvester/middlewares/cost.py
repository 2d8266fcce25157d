"""Downloader middleware: parses a large page in a process with limits before a callback parses it here.

A page that would block the event loop, or take much memory, does not reach its callback. A spider lists in
`reads_apart` the callbacks that read pages in such a process themselves.
"""

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response, TextResponse

from harvester.bounded.process import Bounds
from harvester.config import load_config
from harvester.download.reading import reader_of
from harvester.exceptions import TooCostlyError
from harvester.frontier.attempts import attempts_of
from harvester.internal_meta import MEDIA
from harvester.middlewares.outcome import failed_on_its_way_back
from harvester.outcomes import Outcome, RequestFailed, Verdict
from harvester.parsers.web.weight import count_elements, may_be_json

MIN_BYTES, MIN_JSON_BYTES = 64 * 1024, 1024 * 1024
"""Minimum sizes of a page that is checked. A smaller page costs less than a second, whatever its content."""
BOUNDS = Bounds(cpu_s=0.5, memory_mb=128, result_mb=1, silence_s=60.0)
"""Limits for parsing a page once. A callback may parse it more than once, while other requests wait."""


class CostMiddleware:
    """Stands nearest the engine, where pages are complete and not redirected."""

    def __init__(self, crawler: Crawler, max_elements: int) -> None:
        self._crawler = crawler
        self._attempts = attempts_of(crawler)
        of_spider = getattr(crawler.spider, "MAX_ELEMENTS", max_elements)
        self._max_elements = min(max_elements, of_spider)
        self._setting = " (HARVESTER_MAX_PAGE_ELEMENTS)" if max_elements <= of_spider else ""
        self._reads_apart: frozenset[str] = getattr(crawler.spider, "reads_apart", frozenset())

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config().max_page_elements)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        if (
            not isinstance(response, TextResponse)
            or MEDIA in request.meta
            or self._attempts.is_refused(request, response)
        ):
            return response
        if len(response.body) < (MIN_JSON_BYTES if may_be_json(response.body) else MIN_BYTES):
            return response
        if getattr(request.callback, "__name__", "") in self._reads_apart:
            return response
        outcome, problem = await self._problem(response)
        if not problem:
            return response
        self._crawler.stats.inc_value("harvester/too_costly")
        verdict = Verdict(outcome, problem, rule="cost")
        return await failed_on_its_way_back(self._crawler, request, RequestFailed(verdict, 1))

    async def _problem(self, response: TextResponse) -> tuple[Outcome, str]:
        """Returns why the page is not parsed; an empty text if it is."""
        reader, size = reader_of(self._crawler), f"{len(response.body) / 2**20:.1f} MB"
        try:
            number = await reader.call_within(BOUNDS, count_elements, response.body, response.encoding)
        except TooCostlyError as error:
            return Outcome(error.outcome), f"the page of {size} is not parsed: {error}"
        if number <= self._max_elements:
            return Outcome.OK, ""
        most = f"{self._max_elements:,} are parsed here{self._setting}"
        return Outcome.INVALID, f"the page of {size} has {number:,} elements, and at most {most}"
