"""The downloader of leased requests (the setting DOWNLOADER)."""

from functools import wraps
from typing import Any, cast

from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.http import Response
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from harvester.frontier.in_flight import InFlight, fresh
from harvester.frontier.scheduler import Scheduler
from harvester.internal_meta import LEASE
from harvester.items.receipts import Receipt, receipt_under_way
from harvester.shutdown import RunEnding


def with_leases(downloader: type[Any]) -> type[Downloader]:
    """Returns a downloader class that keeps a lease with the request that replaces a response.

    The engine calls it for requests of the scheduler, and for those that callbacks and pipelines download themselves.
    The latter have no lease, whatever meta they copied.
    """
    if getattr(downloader, "knows_leases", False):
        return cast(type[Downloader], downloader)

    @wraps(downloader, updated=())
    class Leasing(downloader):  # type: ignore[misc]
        knows_leases = True

        @wraps(downloader.fetch)  # older ones want the spider, as the engine sees by the signature
        def fetch(self, request: Request, *spider: Any) -> Any:
            fetch = super().fetch
            engine = self.crawler._engine  # the public one raises an exception without an engine
            scheduler = engine.scheduler if engine else None
            if not isinstance(scheduler, Scheduler):
                return fetch(request, *spider)
            lease = scheduler.begin_download(request)
            own = fresh(request.copy()) if lease is None and LEASE in request.meta else request
            fetched = fetch(own, *spider)
            if not isinstance(fetched, Deferred):
                return fetched  # the engine says what is wrong with it
            if lease is None:
                return fetched.addErrback(_interrupt, receipt_under_way())
            return fetched.addCallback(_continue, request, lease, scheduler)

    return Leasing


LeaseDownloader = with_leases(Downloader)


def _continue(
    result: Response | Request, request: Request, lease: InFlight, scheduler: Scheduler
) -> Response | Request:
    return scheduler.continued(result, request, lease) if isinstance(result, Request) else result


def _interrupt(failure: Failure, receipt: Receipt | None) -> Failure:
    """Notes at the current item that the run ended before a download for it was done."""
    if receipt and isinstance(failure.value, RunEnding):
        receipt.records.interrupted = True
    return failure
