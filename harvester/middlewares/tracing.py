"""Spider middleware: records a request as an OpenTelemetry trace, from its lease to its acknowledgement.

On if HARVESTER_TRACES_URL names a collector; needs the extra `tracing`. When off, it costs nothing. A trace is a span
`request` that contains the spans `download`, `parse`, `pipelines` and `ack`. It ends when the request goes back to
the frontier, as for a retry; the next lease starts another trace.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from harvester import __version__
from harvester.config import Config, load_config
from harvester.exceptions import UsageError
from harvester.formatting import without_userinfo
from harvester.frontier.in_flight import InFlight
from harvester.frontier.messages import Dead, Operation
from harvester.frontier.scheduler import Scheduler
from harvester.masking import mask

if TYPE_CHECKING:  # an extra
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

MOST_SHOWN = 500
"""Maximum number of characters of a URL."""


@dataclass
class Traced:
    """A lease that is under way."""

    root: Span
    spans: dict[str, Span] = field(default_factory=dict)
    """Open spans by name."""
    items: int = 0
    """Number of items in the pipelines."""


class TracingMiddleware:
    """Stands next to the spider, so that `parse` lasts until its callback has finished."""

    def __init__(self, crawler: Crawler, provider: TracerProvider) -> None:
        self._crawler = crawler
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("harvester", __version__)
        self._traced: dict[str, Traced] = {}
        """Traced leases by id."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = load_config()
        if not config.traces_url:
            raise NotConfigured
        middleware = cls(crawler, provider_of(config, crawler.spidercls.name))
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
            scheduler.listeners.append(self)

    def engine_stopped(self) -> None:
        """Ends the remaining traces, and sends all."""
        for lease in list(self._traced):
            self._end(lease)
        self._provider.shutdown()

    # Events of a request ----------------------------------------------------------------------------------

    def lease_began(self, request: Request, lease: InFlight) -> None:
        attributes: dict[str, Any] = {
            "url.full": without_userinfo(mask(request.url, MOST_SHOWN)),
            "http.request.method": request.method,
            "harvester.spider": self._crawler.spidercls.name,
            "harvester.site": lease.site,
            "harvester.lease": lease.id,
            "harvester.items": [f"{item.id}#{item.attempt}" for item in lease.items],
            "harvester.job": lease.items[0].job if lease.items else "",
        }
        self._traced[lease.id] = Traced(self._tracer.start_span("request", attributes=attributes))

    def download_begins(self, request: Request) -> None:
        self._begin(request, "download")

    def download_ends(self, request: Request) -> None:
        if traced := self._of(request):
            self._end_span(traced, "download")

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        traced = self._of(response.request)
        if traced is None:
            async for output in result:
                yield output
            return
        traced.root.set_attribute("http.response.status_code", response.status)
        traced.root.set_attribute("http.response.body.size", len(response.body))
        self._begin(response.request, "parse")
        try:
            async for output in result:
                if not isinstance(output, Request):
                    traced.items += 1
                    self._begin(response.request, "pipelines")
                yield output
        except Exception as error:
            if span := traced.spans.get("parse"):
                span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            self._end_span(traced, "parse")

    def item_ends(self, response: Response | None = None) -> None:
        if response is not None and (traced := self._of(response.request)):
            traced.items -= 1
            if traced.items <= 0:
                self._end_span(traced, "pipelines")

    def lease_ended(self, lease: str, operation: Operation) -> Callable[[], None] | None:
        traced = self._traced.get(lease)
        if traced is None:
            return None
        outcome = str(getattr(operation, "outcome", ""))
        traced.root.set_attribute("harvester.fate", type(operation).__name__.lower())
        traced.root.set_attribute("harvester.outcome", outcome)
        if isinstance(operation, Dead):
            from opentelemetry.trace import StatusCode

            traced.root.set_status(StatusCode.ERROR, mask(operation.reason, MOST_SHOWN))
        if outcome != "ok":
            self._end(lease)  # other ends are not acknowledged
            return None
        self._begin_span(traced, "ack")
        return lambda: self._end(lease)

    # Spans ------------------------------------------------------------------------------------------------

    def _begin(self, request: Request | None, name: str) -> None:
        if (traced := self._of(request)) and name not in traced.spans:
            self._begin_span(traced, name)

    def _begin_span(self, traced: Traced, name: str) -> None:
        from opentelemetry.trace import set_span_in_context

        traced.spans[name] = self._tracer.start_span(name, set_span_in_context(traced.root))

    def _end_span(self, traced: Traced, name: str) -> None:
        if span := traced.spans.pop(name, None):
            span.end()

    def _end(self, lease: str) -> None:
        if traced := self._traced.pop(lease, None):
            for name in list(traced.spans):
                self._end_span(traced, name)
            traced.root.end()

    def _of(self, request: Request | None) -> Traced | None:
        scheduler = self._scheduler
        lease = scheduler.lease_of(request) if scheduler is not None else None
        return self._traced.get(lease.id) if lease else None

    @property
    def _scheduler(self) -> Scheduler | None:
        scheduler = self._crawler.engine.scheduler if self._crawler.engine else None
        return scheduler if isinstance(scheduler, Scheduler) else None


def provider_of(config: Config, spider: str) -> TracerProvider:
    """Returns a provider that sends some traces by OTLP over HTTP, in a thread. Raises UsageError without the extra."""
    if not all(importlib.util.find_spec(name) for name in ("opentelemetry", "opentelemetry.exporter.otlp.proto.http")):
        raise UsageError("HARVESTER_TRACES_URL needs the extra `tracing`: uv pip install 'harvester[tracing]'.")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    about = {"service.name": "harvester", "service.version": __version__, "harvester.spider": spider}
    provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(config.traces_share), resource=Resource.create(about), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(config.traces_url)))
    return provider
