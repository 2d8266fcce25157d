"""`scrapy shell`, which stores nothing."""

import argparse
from threading import Thread

from scrapy.commands.shell import Command as ScrapyShell

from harvester.commands.standalone import be_alone

END_S = 5.0
"""Seconds to wait for the event loop of the shell to end."""


class ShellCommand(ScrapyShell):
    """Scrapy's shell, but its event loop ends before the process does.

    Scrapy leaves the loop running in its thread. A process that exits under a running loop may end with a segmentation
    fault.
    """

    _loop_thread: Thread | None = None

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            super().run(args, opts)
        finally:
            if self._loop_thread:
                from twisted.internet import reactor

                reactor.callFromThread(reactor.stop)  # type: ignore[misc]
                self._loop_thread.join(END_S)

    def _start_crawler_thread(self) -> None:
        assert self.crawler_process
        wishes = {"stop_after_crawl": False, "install_signal_handlers": False}
        self._loop_thread = Thread(target=self.crawler_process.start, kwargs=wishes, daemon=True)
        self._loop_thread.start()
