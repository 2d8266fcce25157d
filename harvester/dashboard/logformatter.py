"""The log lines that Scrapy writes about pages and items: few, short, and without what must not be seen."""

import logging
from traceback import extract_tb
from types import TracebackType
from typing import Any, Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult
from twisted.python.failure import Failure

from harvester import logs
from harvester.exceptions import HarvesterError
from harvester.formatting import counted, without_userinfo
from harvester.items import Batch, Record
from harvester.masking import mask
from harvester.shutdown import RunEnding

_ROUTINE = ("scrapy.addons", "scrapy.crawler", "scrapy.middleware")
"""Loggers that list settings and components at every start; only their warnings are of use."""

_REPETITIVE = (
    "scrapy.core.downloader.handlers._base_streaming",
    "scrapy.downloadermiddlewares.redirect",
    "py.warnings",
)
_KNOWN = ("is experimental", "found no scrapy.spidermiddlewares.referer", "Spider.log() is deprecated", "[Spidermon]")
"""What is said in every run: of choices that settings.py explains, and by Spidermon, whose verdict monitors/ logs."""

_LONGEST_MESSAGE = 300
"""Characters of an exception's text; some carry the whole answer."""


class QuietLogFormatter(LogFormatter):
    """Nothing for pages and items that went well (the stats count them), one line for what went wrong.

    Tracebacks, and what Scrapy says of its settings and components, are shown with LOG_LEVEL=DEBUG.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        logs.tell(lambda: _context(crawler))
        if crawler.settings["LOG_LEVEL"] != "DEBUG":
            logging.getLogger("scrapy.core.scraper").addFilter(_without_traceback)
            for name in (*_REPETITIVE, crawler.spidercls.name):
                logging.getLogger(name).addFilter(_is_news)
            for name in _ROUTINE:
                logging.getLogger(name).setLevel(logging.WARNING)
        return cls()

    def crawled(self, request: Request, response: Response, spider: Spider) -> None:  # type: ignore[override]
        """Scrapy logs nothing for None."""

    def scraped(self, item: Any, response: Response | Failure | None, spider: Spider) -> None:  # type: ignore[override]
        """Scrapy logs nothing for None."""

    def dropped(
        self, item: Any, exception: BaseException, response: Response | Failure | None, spider: Spider
    ) -> LogFormatterResult:
        return _line(logging.DEBUG, "Dropped %(what)s: %(why)s", what=_item(item), why=_text(exception))

    def item_error(
        self, item: Any, exception: BaseException, response: Response | Failure | None, spider: Spider
    ) -> LogFormatterResult:
        if isinstance(exception, RunEnding):
            return _line(logging.DEBUG, "Put back %(what)s: %(why)s", what=_item(item), why=_text(exception))
        return _line(logging.ERROR, "Could not keep %(what)s: %(why)s", what=_item(item), why=_error(exception))

    def spider_error(
        self, failure: Failure, request: Request, response: Response | Failure, spider: Spider
    ) -> LogFormatterResult:
        return _line(logging.ERROR, "Could not read %(what)s: %(why)s", what=_address(request), why=_error(failure))

    def download_error(
        self, failure: Failure, request: Request, spider: Spider, errmsg: str | None = None
    ) -> LogFormatterResult:
        return _line(logging.ERROR, "Could not fetch %(what)s: %(why)s", what=_address(request), why=_error(failure))


def _context(crawler: Crawler) -> dict[str, object]:
    stats = crawler.stats.get_stats() if crawler.stats else {}
    return {
        "spider": crawler.spidercls.name,
        "job": stats.get("harvester/job"),
        "run": stats.get("harvester/run"),
        "worker": crawler.settings.getint("HARVESTER_WORKER"),
    }


def _line(level: int, message: str, **args: str) -> LogFormatterResult:
    return {"level": level, "msg": message, "args": args}


def _address(request: Request) -> str:
    url = without_userinfo(mask(request.url, 2 * _LONGEST_MESSAGE))
    return url if len(url) <= _LONGEST_MESSAGE else url[:_LONGEST_MESSAGE] + "..."


def _item(item: Any) -> str:
    """How many records, of which kinds, from where."""
    records = item.records if isinstance(item, Batch) else [item] if isinstance(item, Record) else []
    if not records:
        return f"an item of type {type(item).__name__}"
    kinds = sorted({record.KIND for record in records})
    source = without_userinfo(mask(records[0].provenance.url, _LONGEST_MESSAGE))
    return f"{counted(len(records), 'record')} ({', '.join(kinds)}) from {source}"


def _error(problem: BaseException | Failure) -> str:
    """An exception's type, text and place in our code; the text alone when it is a sentence of ours."""
    exception = problem.value if isinstance(problem, Failure) else problem
    text = _text(exception)
    if isinstance(exception, HarvesterError):
        return text
    traceback: TracebackType | None = getattr(exception, "__traceback__", None)
    return f"{type(exception).__name__}: {text}{_place(traceback)}"


def _place(traceback: TracebackType | None) -> str:
    """The innermost line of a traceback that is not a library's."""
    frames = [frame for frame in extract_tb(traceback) if "site-packages" not in frame.filename]
    return f" (in {frames[-1].name}, {frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _text(exception: BaseException | None) -> str:
    """On one line, without passwords, not too long."""
    text = " ".join(without_userinfo(mask(str(exception), 4 * _LONGEST_MESSAGE)).split())
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + " ..."


def _without_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


def _is_news(record: logging.LogRecord) -> bool:
    """Whether it is more than what comes with every run. Spidermon's own errors are."""
    said = str(record.msg)
    return not any(part in said for part in _KNOWN) or (record.levelno >= logging.ERROR and "\nFAIL: " not in said)
