"""Fetches one page of a site, for `spiders new` and `sites new`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.python.failure import Failure

from harvester.exceptions import ServiceError, StorageError, UsageError
from harvester.outcomes import Outcome, verdict_of


def check_address(url: str) -> None:
    """Raises UsageError for an unusable address."""
    if not url.isprintable():  # urlsplit silently removes line ends and tabs
        raise UsageError(f"new: the address {url!r} holds a character that cannot be seen: type it anew.")
    try:
        is_address = urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(f"new: {url!r} is no address: give it whole, like https://example.com/page.")


def fetch(url: str, *also: Outcome) -> Response:
    """Fetches the page once, like a crawl: robots.txt is obeyed. Raises ServiceError when it fails.

    `also`: outcomes of error responses that are returned all the same.
    """
    answer = ask(Request(url))
    if answer is None:
        raise ServiceError(f"new: {url} does not come: see above")
    if isinstance(answer, Response):
        return answer
    error: Any = answer.value
    verdict = verdict_of(error)
    if isinstance(error, HttpError) and verdict.outcome in also:
        return error.response
    raise ServiceError(f"new: {url} does not come: {verdict.outcome}: {verdict.reason}")


def ask(request: Request, **own: Any) -> Response | Failure | None:
    """Returns the result of a crawl of this request alone, with the settings `own`.

    Returns None when the log has the reason. Raises UsageError when a spider of the project cannot be imported.
    """
    from scrapy.crawler import AsyncCrawlerProcess

    from harvester.project import loader_of, project_settings

    settings = project_settings()
    loader_of(settings)  # raises for a spider of the project that cannot be imported
    alone: dict[str, Any] = {
        "SCHEDULER": "scrapy.core.scheduler.Scheduler",  # the frontier is for crawls
        "ITEM_PIPELINES_BASE": {},
        "SPIDER_MIDDLEWARES_BASE": {"harvester.middlewares.httperror.HttpErrorMiddleware": 50},
        "EXTENSIONS_BASE": {},
        "LOG_LEVEL": "ERROR",
        **own,
    }
    settings.setdict(alone, "cmdline")
    process = AsyncCrawlerProcess(settings)
    came: list[Response | Failure] = []
    process.crawl(_OnePage, request=request, came=came)
    process.start()
    return came[0] if came else None


class _OnePage(Spider):
    name = "one_page"
    request: Request
    came: list[Response | Failure]

    async def start(self) -> AsyncIterator[Request]:
        yield self.request.replace(callback=self.came.append, errback=self.came.append)


def write(path: Path, content: bytes) -> None:
    """Writes a file and prints its path. Raises StorageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise StorageError(f"new: {path} cannot be written: {error.strerror or error}.") from None
    print(path)
