"""Workers of the spider `inputs`, each a process `scrapy crawl inputs`."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.forking import Forked, fork
from tests.root import ROOT

LONGEST_S = 240
"""For a step of a test, and a crawl of a few thousand pages."""


class Crawl:
    """`async with Crawl(...) as crawl`: none of its workers outlives the block."""

    def __init__(self, folder: Path, variables: Mapping[str, str], *arguments: str) -> None:
        self._log = folder / "log"
        self._folder = folder
        self._command = ["crawl", "inputs"]
        self._command += [word for argument in arguments for word in ("-a", argument)]
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCRAPY_SETTINGS_MODULE": "tests.breaker.settings",
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_STATE_DIR": str(folder / "state"),
            "NO_PROXY": "127.0.0.1",
            **variables,
        }
        self.workers: list[Forked] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            if worker.returncode is None:
                worker.kill()
            await worker.wait()

    def also(self, url: str) -> None:
        """Has workers that are started from now on crawl another site too."""
        self._command = [f"{word},{url}" if word.startswith("urls=") else word for word in self._command]

    async def start(self) -> Forked:
        with self._log.open("ab") as log:
            worker = await fork("scrapy", *self._command, cwd=self._folder, env=self._environment, log=log.fileno())
        self.workers.append(worker)
        return worker

    async def ended(self, longest_s: float = LONGEST_S) -> list[int]:
        """Exit codes, when all workers that were not killed have ended."""
        async with asyncio.timeout(longest_s):
            codes = [await worker.wait() for worker in self.workers]
        return [code for code in codes if code >= 0]

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")
