"""Spider middleware: records a request as an OpenTelemetry trace, from its lease to its acknowledgement.

On if HARVESTER_TRACES_URL names a collector; needs the extra `tracing`. When off, it costs nothing. A trace is a span
`request` that contains the spans `download`, `parse`, `pipelines` and `ack`. It ends when the request goes back to
the frontier, as for a retry; the next lease starts another trace.
"""

from collections.abc import AsyncIterator
from typing import Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from harvester.config import load_config
from harvester.frontier.scheduler import Scheduler
from harvester.frontier.traces import Traced, Traces, provider_of


class TracingMiddleware:
    """Stands next to the spider, so that `parse` lasts until its callback has finished."""

    def __init__(self, crawler: Crawler, traces: Traces) -> None:
        self._crawler = crawler
        self._traces = traces

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = load_config()
        if not config.traces_url:
            raise NotConfigured
        spider = crawler.spidercls.name
        middleware = cls(crawler, Traces(spider, provider_of(config, spider)))
        for receiver, signal in (
            (middleware.spider_opened, signals.spider_opened),
            (middleware.download_begins, signals.request_reached_downloader),
            (middleware.download_ends, signals.request_left_downloader),
            (middleware.item_ends, signals.item_scraped),
            (middleware.item_ends, signals.item_dropped),
            (middleware.item_ends, signals.item_error),
            (middleware.engine_stopped, signals.engine_stopped),
        ):
            crawler.signals.connect(receiver, signal)
        return middleware

    def spider_opened(self) -> None:
        scheduler = self._scheduler
        if scheduler is not None:  # a scheduler without leases has length 0, so it is false
            scheduler.listeners.append(self._traces)

    def engine_stopped(self) -> None:
        self._traces.close()

    def download_begins(self, request: Request) -> None:
        if traced := self._of(request):
            self._traces.begin_span(traced, "download")

    def download_ends(self, request: Request) -> None:
        if traced := self._of(request):
            self._traces.end_span(traced, "download")

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        traced = self._of(response.request)
        if traced is None:
            async for output in result:
                yield output
            return
        traced.root.set_attribute("http.response.status_code", response.status)
        traced.root.set_attribute("http.response.body.size", len(response.body))
        self._traces.begin_span(traced, "parse")
        try:
            async for output in result:
                if not isinstance(output, Request):
                    traced.items += 1
                    self._traces.begin_span(traced, "pipelines")
                yield output
        except Exception as error:
            if span := traced.spans.get("parse"):
                span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            self._traces.end_span(traced, "parse")

    def item_ends(self, response: Response | None = None) -> None:
        if response is not None and (traced := self._of(response.request)):
            traced.items -= 1
            if traced.items <= 0:
                self._traces.end_span(traced, "pipelines")

    def _of(self, request: Request | None) -> Traced | None:
        scheduler = self._scheduler
        return self._traces.get(scheduler.lease_of(request)) if scheduler is not None else None

    @property
    def _scheduler(self) -> Scheduler | None:
        scheduler = self._crawler.engine.scheduler if self._crawler.engine else None
        return scheduler if isinstance(scheduler, Scheduler) else None
