"""Shows a running crawl: a panel in a terminal or occasional log lines elsewhere, and a summary at the end."""

import atexit
import logging
import os
import sys
import time
from io import StringIO
from typing import Self

import psutil
from rich.console import Console
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from harvester import logs
from harvester.config import load_config
from harvester.dashboard.panel import line, panel
from harvester.dashboard.progress import CrawlPace, Progress, Speedometer
from harvester.dashboard.screen import Screen, wants_panel
from harvester.dashboard.summary import ResultPlaces, show, summarise
from harvester.formatting import counted, typed_command

logger = logging.getLogger(__name__)

PANEL_SECONDS = 0.25
"""Seconds between two drawings of the panel; each costs about 2 ms of CPU."""

LOOK_SECONDS = 1.0
"""Seconds between two reads of the stats without a panel."""

LINE_SECONDS, FIRST_LINE_SECONDS = 30.0, 10.0
"""Seconds between two log lines without a panel, and before the first line."""

LINE_WIDTH = 120
"""Characters per line of the summary in JSON logs."""


class SteadyConsole(Console):
    """A console that survives a closed pipe: Rich would exit before the run is stored."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class LiveView:
    """Scrapy extension that only reads stats; nothing depends on it."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.console = SteadyConsole(stderr=True, highlight=False)
        watched = wants_panel(sys.stderr, os.environ) and not logs.is_json()
        self.screen = Screen(self.console) if watched else None
        if self.screen:  # the summary replaces Scrapy's dump of the stats
            logging.getLogger("scrapy.statscollectors").setLevel(logging.WARNING)
        self.process = psutil.Process()
        self.task = create_looping_call(self.look)
        self.started = time.monotonic()
        self.next_line = self.started + FIRST_LINE_SECONDS
        self.speedometer = Speedometer(10.0 if self.screen else LINE_SECONDS)
        self.stopping = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if crawler.settings.getint("HARVESTER_WORKER"):  # `harvester worker` shows its workers together
            raise NotConfigured
        if not crawler.settings.getbool("LOG_ENABLED"):  # --nolog
            raise NotConfigured
        view = cls(crawler)
        crawler.signals.connect(view.spider_opened, signals.spider_opened)
        crawler.signals.connect(view.spider_closed, signals.spider_closed)
        return view

    def spider_opened(self) -> None:
        atexit.register(self._process_ends)  # the summary comes last, after all log lines
        self.task.start(PANEL_SECONDS if self.screen else LOOK_SECONDS)

    def look(self) -> None:
        """Updates the display. Called a few times a second."""
        if not self.stopping and not self.crawler.crawling:
            self.stopping = True
            logger.info(
                "Finishing %s in flight; press Ctrl-C again to stop at once. "
                "To continue later run the same command again.",
                counted(self._in_flight(), "request"),
            )
        now = time.monotonic()
        progress, pace = self._measure(now)
        if self.screen:
            drawing = panel(
                progress,
                pace,
                now=time.time(),
                elapsed=now - self.started,
                memory=self.process.memory_info().rss,
                in_flight=self._in_flight() if self.stopping else None,
            )
            self.screen.show(drawing)
        elif now >= self.next_line:
            self.next_line = now + LINE_SECONDS
            logger.info("%s", line(progress, pace))

    def _measure(self, now: float) -> tuple[Progress, CrawlPace]:
        progress = Progress.of(self.crawler.stats.get_stats(), time.time())
        return progress, self.speedometer.measure(progress, now)

    def _in_flight(self) -> int:
        return len(self.crawler.engine.downloader.active)

    def spider_closed(self) -> None:
        if self.task.running:
            self.task.stop()
        if self.screen:
            self.screen.close()
        else:
            logger.info("%s", line(*self._measure(time.monotonic())))

    def _process_ends(self) -> None:
        """Shows the summary, even when the engine did not stop properly, for example after a second Ctrl-C."""
        if self.screen:
            self.screen.close()
        stats = {"elapsed_time_seconds": time.monotonic() - self.started, **self.crawler.stats.get_stats()}
        places = ResultPlaces.of(load_config(), self.crawler.spidercls.name)
        summary = summarise(stats, places, typed_command(sys.orig_argv, sys.argv[0]))
        if logs.is_json():
            written = StringIO()
            show(summary, Console(file=written, width=LINE_WIDTH))
            logs.say(written.getvalue())
        else:
            show(summary, self.console)
