"""Log lines as JSON, one object a line, for log collectors: HARVESTER_LOG_FORMAT=json.

Each line has `time` (UTC), `level`, `logger`, `message` and `pid`; `exception` holds a traceback; processes that
crawl add `spider`, `job`, `run` and `worker` as soon as they are known. Secrets are masked as in other log lines.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType

logger = logging.getLogger(__name__)

_is_on = False
_context: Callable[[], Mapping[str, object]] = dict


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in _context().items() if value},
            "pid": record.process,
        }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)  # masked where it is set
        traceback = "\n".join(filter(None, (record.exc_text, record.stack_info)))
        if traceback:
            line["exception"] = traceback
        return json.dumps(line, default=str)  # ASCII is valid JSON in every encoding of stderr


def write_json() -> None:
    """Switches to JSON: all present and later handlers of the root logger, and messages without any handler."""
    global _is_on
    _is_on = True
    for handler in (*logging.root.handlers, logging.lastResort):
        if handler:
            handler.setFormatter(JsonFormatter())
    vars(logging.root)["addHandler"] = _add_handler  # Scrapy installs one several times
    sys.excepthook = _log_fault


def is_json() -> bool:
    """Returns True if log lines of this process are JSON."""
    return _is_on


def tell(context: Callable[[], Mapping[str, object]]) -> None:
    """Sets the function that provides further fields; called for each line. Empty values are left out."""
    global _context
    _context = context


def say(text: str, level: int = logging.INFO) -> None:
    """Shows a final message to the person at the terminal: on standard error, or as a line of the JSON log."""
    if _is_on:
        logger.log(level, "%s", text.strip("\n"))
    else:
        print(text, file=sys.stderr)


def _add_handler(handler: logging.Handler) -> None:
    handler.setFormatter(JsonFormatter())
    logging.Logger.addHandler(logging.root, handler)


def _log_fault(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    logger.critical("The program failed: %s", kind.__name__, exc_info=(kind, error, traceback))
