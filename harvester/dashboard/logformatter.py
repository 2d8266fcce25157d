"""The log lines that Scrapy writes about pages and items: few, short, and without secrets."""

import logging
from traceback import FrameSummary, extract_tb, format_exception
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

_ROUTINE = ("scrapy.addons", "scrapy.crawler", "scrapy.middleware", "scrapy.spidermiddlewares.httperror")
"""Loggers that list settings and components at every start, and refused responses. Only their warnings are shown."""

_REPETITIVE = (
    "scrapy.core.downloader.handlers._base_streaming",
    "scrapy.downloadermiddlewares.redirect",
    "py.warnings",
)
_KNOWN = ("is experimental", "found no scrapy.spidermiddlewares.referer", "Spider.log() is deprecated", "[Spidermon]")
"""Messages of every run: about choices that addon.py explains, and by Spidermon, whose verdict monitors/ logs."""

_NOT_FETCHED = "Could not fetch %(what)s: %(why)s"
_LONGEST_MESSAGE = 300
"""Maximum number of characters of an exception's text; some contain the whole response."""


class QuietLogFormatter(LogFormatter):
    """Logs nothing for successful pages and items (the stats count them), and one line for each failure.

    An exception has its traceback only the first time at a place. With LOG_LEVEL=DEBUG all is logged as by Scrapy:
    pages, items, each traceback, settings and components.
    """

    is_debugging = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        logs.tell(lambda: _context(crawler))
        formatter = cls()
        formatter.is_debugging = crawler.settings["LOG_LEVEL"] in ("DEBUG", logging.DEBUG)
        logging.getLogger("scrapy.core.scraper").addFilter(_Tracebacks(each=formatter.is_debugging))
        if not formatter.is_debugging:
            for name in (*_REPETITIVE, crawler.spidercls.name):
                logging.getLogger(name).addFilter(_is_news)
            for name in _ROUTINE:
                logging.getLogger(name).setLevel(logging.WARNING)
        return formatter

    def crawled(self, request: Request, response: Response, spider: Spider) -> LogFormatterResult | None:  # type: ignore[override]
        return _as_scrapy(super().crawled(request, response, spider)) if self.is_debugging else None

    def scraped(  # type: ignore[override]
        self, item: Any, response: Response | Failure | None, spider: Spider
    ) -> LogFormatterResult | None:
        if not self.is_debugging:
            return None
        what = _item(item) if isinstance(item, (Batch, Record)) else item
        return _as_scrapy(super().scraped(what, response, spider))

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
        # The outcomes have counted it, and its dead letter has the reason.
        level = logging.DEBUG if hasattr(failure.value, "verdict") else logging.ERROR
        return _line(level, _NOT_FETCHED, what=_address(request), why=_error(failure))


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


def _as_scrapy(result: LogFormatterResult) -> LogFormatterResult:
    """Returns Scrapy's log line without passwords."""
    args = result["args"]
    assert isinstance(args, dict)
    return {**result, "args": {name: without_userinfo(mask(str(value))) for name, value in args.items()}}


def _address(request: Request) -> str:
    url = without_userinfo(mask(request.url, 2 * _LONGEST_MESSAGE))
    return url if len(url) <= _LONGEST_MESSAGE else url[:_LONGEST_MESSAGE] + "..."


def _item(item: Any) -> str:
    """Describes an item: the number of records, their kinds and their source."""
    records = item.records if isinstance(item, Batch) else [item] if isinstance(item, Record) else []
    if not records:
        return f"an item of type {type(item).__name__}"
    kinds = sorted({record.KIND for record in records})
    source = without_userinfo(mask(records[0].provenance.url, _LONGEST_MESSAGE))
    return f"{counted(len(records), 'record')} ({', '.join(kinds)}) from {source}"


def _error(problem: BaseException | Failure) -> str:
    """Returns an exception's type, text and place in our code; only the text for harvester's own exceptions."""
    exception = problem.value if isinstance(problem, Failure) else problem
    text = _text(exception)
    if isinstance(exception, HarvesterError):
        return text
    traceback: TracebackType | None = getattr(exception, "__traceback__", None)
    return f"{type(exception).__name__}: {text}{_place(traceback)}"


def _place(traceback: TracebackType | None) -> str:
    frame = _innermost(traceback)
    return f" (in {frame.name}, {frame.filename}:{frame.lineno})" if frame else ""


def _innermost(traceback: TracebackType | None) -> FrameSummary | None:
    """Returns the innermost line of a traceback outside libraries."""
    frames = [frame for frame in extract_tb(traceback) if "site-packages" not in frame.filename]
    return frames[-1] if frames else None


def _text(exception: BaseException | None) -> str:
    """Returns the text on one line, without passwords, and cut."""
    text = " ".join(without_userinfo(mask(str(exception), 4 * _LONGEST_MESSAGE)).split())
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + " ..."


class _Tracebacks(logging.Filter):
    """Writes tracebacks without passwords: all with `each`, otherwise the first at a place outside libraries.

    Without `each`, failed downloads and harvester's own exceptions have no traceback.
    """

    def __init__(self, *, each: bool) -> None:
        super().__init__()
        self._each = each
        self._shown: set[tuple[type, str, int | None]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        kind, error, traceback = record.exc_info or (None, None, None)
        if kind and (self._each or self._is_first(record, kind, error, traceback)):
            text = "".join(format_exception(kind, error, traceback)).rstrip("\n")
            record.exc_text = without_userinfo(mask(text))
        else:
            record.exc_info = None
        return True

    def _is_first(
        self, record: logging.LogRecord, kind: type, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        frame = _innermost(traceback)
        if frame is None or record.msg == _NOT_FETCHED or isinstance(error, HarvesterError):
            return False
        place = (kind, frame.filename, frame.lineno)
        known = place in self._shown
        self._shown.add(place)
        return not known


def _is_news(record: logging.LogRecord) -> bool:
    """Returns True unless the message comes with every run. Spidermon's own errors are always shown."""
    said = str(record.msg)
    return not any(part in said for part in _KNOWN) or (record.levelno >= logging.ERROR and "\nFAIL: " not in said)
