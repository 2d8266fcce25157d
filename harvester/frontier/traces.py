"""OpenTelemetry traces of leased requests. Needs the extra `tracing`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy import Request

from harvester import __version__
from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.formatting import without_userinfo
from harvester.frontier.in_flight import InFlight
from harvester.frontier.messages import Dead, Operation
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


class Traces:
    """The traces of the leases in progress."""

    def __init__(self, spider: str, provider: TracerProvider) -> None:
        self._spider = spider
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("harvester", __version__)
        self._traced: dict[str, Traced] = {}
        """Traced leases by id."""

    def get(self, lease: InFlight | None) -> Traced | None:
        """Returns the trace of a lease in progress."""
        return self._traced.get(lease.id) if lease else None

    def close(self) -> None:
        """Ends the remaining traces, and sends all."""
        for lease in list(self._traced):
            self._end(lease)
        self._provider.shutdown()

    def lease_began(self, request: Request, lease: InFlight) -> None:
        attributes: dict[str, Any] = {
            "url.full": without_userinfo(mask(request.url, MOST_SHOWN)),
            "http.request.method": request.method,
            "harvester.spider": self._spider,
            "harvester.site": lease.site,
            "harvester.lease": lease.id,
            "harvester.items": [f"{item.id}#{item.attempt}" for item in lease.items],
            "harvester.job": lease.items[0].job if lease.items else "",
        }
        self._traced[lease.id] = Traced(self._tracer.start_span("request", attributes=attributes))

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
        self.begin_span(traced, "ack")
        return lambda: self._end(lease)

    def begin_span(self, traced: Traced, name: str) -> None:
        """Begins a span in a trace, unless it is open."""
        from opentelemetry.trace import set_span_in_context

        if name not in traced.spans:
            traced.spans[name] = self._tracer.start_span(name, set_span_in_context(traced.root))

    def end_span(self, traced: Traced, name: str) -> None:
        """Ends a span, if it is open."""
        if span := traced.spans.pop(name, None):
            span.end()

    def _end(self, lease: str) -> None:
        if traced := self._traced.pop(lease, None):
            for name in list(traced.spans):
                self.end_span(traced, name)
            traced.root.end()


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
