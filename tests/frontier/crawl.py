"""A crawl whose requests are in the frontier, in a process of its own: `python -m tests.frontier.crawl <site> <name>`.

Each path of the site is answered by the method that its first segment names. It prints the finish reason and what
was collected, as JSON.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import CloseSpider, DropItem, IgnoreRequest
from scrapy.http import Response
from scrapy.settings import Settings
from twisted.python.failure import Failure

from harvester.config import load_config
from harvester.exceptions import PageFailed
from harvester.frontier.messages import Push
from harvester.frontier.scheduler import Scheduler
from harvester.items import Batch
from tests.crawling import LONGEST_S
from tests.forking import fork
from tests.root import ROOT

TOO_LARGE = 150
"""Links of one page that are too long."""
FLOOD = (3_000, 15_000, 1_000_000) if os.environ.get("WHOLE_FLOOD") else (3_000, 15_000)
"""Links of one page; memory is looked at after each number of them."""


class Fates(Spider):
    """Follows what it is told to on the way, and collects the addresses of the answers."""

    site: str
    paths: str
    resumed = False

    @property
    def allowed_domains(self) -> list[str]:
        """That of its site. One that is given whole addresses may go anywhere."""
        return [host] if (host := urlsplit(self.site).hostname) else []

    async def start(self) -> AsyncIterator[Any]:
        for path in self.paths.split():
            yield self.ask(path, callback=lambda _: None) if path == "/lambda" else self.ask(path)

    def ask(self, path: str, **attributes: Any) -> Request:
        name = path.split("/")[1].partition("?")[0].replace("-", "_")
        callback = attributes.pop("callback", getattr(self, f"on_{name}", self.parse))
        errback = getattr(self, f"{name}_failed", None)
        if name == "not_again":
            attributes["meta"] = {"dont_retry": True}
        return Request(self.site + path, callback, errback=errback, **attributes)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url.removeprefix(self.site)}

    def on_links(self, response: Response) -> Iterator[Any]:
        yield from self.parse(response)
        for _ in range(3):
            yield self.ask("/linked?from=links")

    def on_copies(self, response: Response) -> Iterator[Any]:
        assert response.request
        yield response.request.replace(url=f"{self.site}/linked?from=copies", callback=self.parse)

    def on_yields_itself(self, response: Response) -> Iterator[Any]:
        """The same object, as spiders do that want a page once more."""
        yield {"url": f"/yields-itself {response.meta.get('again', 0)}"}
        if "again" not in response.meta:
            assert response.request
            response.meta["again"], response.request.dont_filter = 1, True
            yield response.request
            yield {"url": "/yields-itself to the end"}

    def missing_itself_failed(self, failure: Failure) -> Iterator[Any]:
        request: Request = failure.request  # type: ignore[attr-defined]
        if "again" not in request.meta:
            request.meta["again"], request.dont_filter = 1, True
            yield request
        yield {"url": "/missing-itself was missed"}

    async def on_downloads(self, response: Response) -> AsyncIterator[Any]:
        """With the meta of its page, as it is handed on."""
        assert self.crawler.engine
        request = Request(f"{self.site}/downloaded", meta=response.meta)
        inner = await self.crawler.engine.download_async(request)
        yield {"url": f"/downloads {inner.text}"}
        yield self.ask("/linked?from=downloads")

    async def on_downloads_itself(self, response: Response) -> AsyncIterator[Any]:
        """The very request of its page, which the engine has in progress."""
        assert self.crawler.engine
        assert response.request
        inner = await self.crawler.engine.download_async(response.request)
        yield {"url": f"/downloads-itself {inner.status}"}
        yield self.ask("/linked?from=downloads-itself")

    def on_unfiltered(self, response: Response) -> Iterator[Any]:
        for _ in range(2):
            yield self.ask("/linked?from=unfiltered", dont_filter=True)

    def on_raises(self, response: Response) -> None:
        raise KeyError("owner")

    def on_raises_midway(self, response: Response) -> Iterator[Any]:
        yield self.ask("/linked?from=raises-midway")
        raise KeyError("owner")

    def on_unserialisable(self, response: Response) -> Iterator[Any]:
        yield self.ask("/linked?from=unserialisable", callback=lambda response: self.parse(response))

    def on_unserialisable_meta(self, response: Response) -> Iterator[Any]:
        yield self.ask("/linked?from=unserialisable-meta", meta={"page": {"seen": object()}})

    def on_holds_what_it_retries_with(self, response: Response) -> None:
        response.meta["seen"] = object()
        raise PageFailed("server_error", "try it again")

    def on_too_large(self, response: Response) -> Iterator[Any]:
        """Among what may be asked for: an address, a meta and a body that are too large."""
        yield self.ask("/linked?from=too-large")
        for number in range(TOO_LARGE):
            yield self.ask(f"/never?{number}" + "x" * 10_000)
        yield self.ask("/never", meta={"page": "x" * 1_000_000})
        yield self.ask("/never", method="POST", body="x" * 1_000_000)
        yield self.ask("/linked?from=after-too-large")

    def on_flood(self, response: Response) -> Iterator[Any]:
        """Links without end, and what the process has taken at most by then, in kB."""
        for number in range(FLOOD[-1]):
            yield self.ask(f"/never?{number}")
            if number + 1 in FLOOD:
                self.crawler.stats.set_value(f"peak/{number + 1}", getrusage(RUSAGE_SELF).ru_maxrss)
        raise CloseSpider("enough")

    async def on_blocks(self, response: Response) -> AsyncIterator[Any]:
        """Blocks the process once it works on another page too, until there is a file that says so.

        The first try ends after the second has begun: else it might be what acknowledges the second's lease.
        """
        assert self.crawler.engine
        tries = self.crawler.stats.get_value("blocks", 0) + 1
        self.crawler.stats.inc_value("blocks")
        while tries == 1 and len(self.crawler.engine.scheduler) < 2:  # type: ignore[arg-type]  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        self.block(Path(f"released-{tries}"))
        while tries == 1 and self.crawler.stats.get_value("blocks") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        yield {"url": f"/blocks {tries}"}

    def block(self, until: Path) -> None:
        """For longer than a lease, which counts from an exchange before, and until there is the file."""
        end = time.monotonic() + 1.1 * load_config().lease_seconds
        while time.monotonic() < end or not until.exists():
            time.sleep(0.02)

    def on_closes(self, response: Response) -> Iterator[Any]:
        yield from self.parse(response)
        if self.crawler.settings.getbool("CLOSING"):
            raise CloseSpider("enough")

    def missing_handled_failed(self, failure: Failure) -> Iterator[Any]:
        yield {"url": "/missing-handled was missed"}
        yield self.ask("/linked?from=errback")

    def missing_raises_failed(self, failure: Failure) -> None:
        raise KeyError("errback")


class Pipeline:
    """Drops and fails as the address says."""

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Batch):  # of rejects
            return item
        if item["url"] == "/item-dropped":
            raise DropItem("unwanted")
        if item["url"] == "/item-fails":
            raise ValueError("no room for it")
        return item


class Ignoring:
    """A downloader middleware of someone else's."""

    def process_request(self, request: Request) -> None:
        if request.url.endswith("/ignored"):
            raise IgnoreRequest("not on a Sunday")

    def process_response(self, request: Request, response: Response) -> Response | Request:
        if request.url.endswith("/exchanged"):
            return Request(request.url.replace("/exchanged", "/linked?from=exchanged"), callback=request.callback)
        if request.url.endswith("/sent-again") and "again" not in request.meta:
            request.meta["again"], request.dont_filter = 1, True
            return request
        return response

    def process_exception(self, request: Request, exception: Exception) -> Response | None:
        return Response(request.url, body=b"rescued") if request.url.endswith("/rescued") else None


class NotingScheduler(Scheduler):
    """Counts new requests by whether they follow from a lease, and at the end the leases that are left."""

    async def _close(self) -> None:
        self._crawler.stats.set_value("leases_left", len(self))
        await super()._close()

    def enqueue_request(self, request: Request) -> bool:
        is_queued = super().enqueue_request(request)
        told = self._client._outgoing[-1] if self._client._outgoing else None
        if isinstance(told, Push):
            self._crawler.stats.inc_value("rooted" if told.rooted else "followed")
        return is_queued


class Crawled(NamedTuple):
    reason: str
    items: list[str]
    stats: dict[str, Any]
    log: str


async def crawl(
    folder: Path, spider: str, site: str, *paths: str, module: str = "tests.frontier.crawl", **settings: Any
) -> Crawled:
    """A whole crawl. HARVESTER_* variables are those of this process."""
    arguments = [spider, site, " ".join(paths), json.dumps(settings)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings"}
    process = await fork(module, *arguments, cwd=folder, env=environment)
    out, log = await process.end(LONGEST_S)
    assert process.returncode == 0, log
    reason, items, stats = json.loads(out)
    return Crawled(reason, items, stats, log)


def main(spider: type[Fates] = Fates) -> None:
    name, site, paths, given = sys.argv[1:]
    settings = Settings()
    settings.setmodule("harvester.settings")
    settings.setdict(
        {
            "SCHEDULER": NotingScheduler,
            "SPIDER_MIDDLEWARES_BASE": {
                "harvester.middlewares.lease.LeaseMiddleware": 10,
                "harvester.middlewares.httperror.HttpErrorMiddleware": 50,
            },
            "ITEM_PIPELINES_BASE": {Pipeline: 100},
            "EXTENSIONS_BASE": {"scrapy.extensions.corestats.CoreStats": 0},
            "HARVESTER_BACKOFF_FACTOR": 0.01,
            **json.loads(given),
        },
        "cmdline",
    )
    settings.set("DOWNLOADER_MIDDLEWARES", {**settings.getdict("DOWNLOADER_MIDDLEWARES"), Ignoring: 600}, "cmdline")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(type(name, (spider,), {"name": name}))
    items: list[str] = []

    def collect(item: Any) -> None:
        if not isinstance(item, Batch):
            items.append(item["url"])

    from scrapy import signals

    crawler.signals.connect(collect, signals.item_scraped)
    process.crawl(crawler, site=site, paths=paths)
    process.start()
    assert isinstance(crawler.spider, Fates)
    crawler.stats.set_value("resumed", crawler.spider.resumed)
    stats = {key: value for key, value in crawler.stats.get_stats().items() if isinstance(value, (str, int, float))}
    print(json.dumps([stats.get("finish_reason", ""), items, stats]))


if __name__ == "__main__":
    main()
