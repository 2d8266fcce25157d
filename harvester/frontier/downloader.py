"""The downloader of leased requests (the setting DOWNLOADER)."""

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


class LeaseDownloader(Downloader):
    """Scrapy's downloader, which keeps a lease with the request that replaces a response.

    The engine calls it for requests of the scheduler, and for those that callbacks and pipelines download themselves.
    The latter have no lease, whatever meta they copied.
    """

    def fetch(self, request: Request) -> Deferred[Response | Request]:  # type: ignore[override]  # without the spider
        scheduler = self.crawler.engine.scheduler if self.crawler.engine else None
        if not isinstance(scheduler, Scheduler):
            return super().fetch(request)
        lease = scheduler.begin_download(request)
        if lease is None:
            own = fresh(request.copy()) if LEASE in request.meta else request
            return super().fetch(own).addErrback(_interrupt, receipt_under_way())
        return super().fetch(request).addCallback(_continue, request, lease, scheduler)


def _continue(
    result: Response | Request, request: Request, lease: InFlight, scheduler: Scheduler
) -> Response | Request:
    return scheduler.continued(result, request, lease) if isinstance(result, Request) else result


def _interrupt(failure: Failure, receipt: Receipt | None) -> Failure:
    """Notes at the current item that the run ended before a download for it was done."""
    if receipt and isinstance(failure.value, RunEnding):
        receipt.records.interrupted = True
    return failure
