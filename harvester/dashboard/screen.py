"""A panel at the bottom of a terminal, with log lines above it."""

import logging
import sys
from collections.abc import Mapping
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text
from scrapy.utils.log import get_scrapy_root_handler


def wants_panel(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Returns True for a terminal that can move its cursor, unless in a CI job or with NO_LIVE."""
    unwanted = environ.get("NO_LIVE") or environ.get("CI") or environ.get("TERM") == "dumb"
    return stream.isatty() and not unwanted


class Screen:
    """Draws the panel; from the first drawing until `close`, log lines pass through it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty())
        self._handler: logging.StreamHandler[TextIO] | None = None
        self._handler_stream: TextIO | None = None

    def show(self, panel: RenderableType) -> None:
        """Draws the panel in place of the last one."""
        if not self._live.is_started:
            self._open()
        self._live.update(panel, refresh=True)

    def _open(self) -> None:
        handler = get_scrapy_root_handler()
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            self._handler = handler
            self._handler_stream = handler.setStream(_Above(self._console))
        self._live.start()

    def close(self) -> None:
        """Removes the panel and restores the log's stream."""
        if self._handler and self._handler_stream:
            self._handler.setStream(self._handler_stream)
            self._handler = None
        if self._live.is_started:
            self._live.update(Text(), refresh=True)  # Live leaves parts that are higher than the terminal
            self._live.stop()


class _Above:
    """A stream for log lines, which prints unchanged text above the panel."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> int:
        self._console.out(text, end="", highlight=False)
        return len(text)

    def flush(self) -> None:
        """Does nothing: the console flushes by itself."""
