"""The workers of a crawl, each a process `scrapy crawl tree`."""

import os
import random
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.forking import Begun, begin
from tests.root import ROOT
from tests.sandbox.tree_process import Progress, TreeSite

FEW_DESCRIPTORS = 64
"""The limit of open files of a poor worker."""
MOST_FAILURES = 12
"""Workers that end with an error, as they do when they are started while a server is down."""


class Worker(NamedTuple):
    """One process; the site knows it by its User-Agent."""

    agent: str
    process: Begun


class Workers:
    """`with Workers(...) as workers`: none outlives the block."""

    def __init__(
        self,
        site: TreeSite,
        folder: Path,
        settings: str,
        poison: int,
        variables: Mapping[str, str],
        name: str = "tree-worker",
        program: str = "scrapy",
    ) -> None:
        self._name, self._program = name, program
        self.folder = folder
        self._log = folder / "log"
        self.command = ["crawl", "tree", "-a", f"url={site.url}"]
        self.command += ["-a", f"poison={poison}"]
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCRAPY_SETTINGS_MODULE": settings,
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_MIN_RECORDS": "0",
            **variables,
        }
        self._started = 0
        self._expected: dict[str, set[int]] = {}
        """The exit codes that a worker may have, after what struck it."""
        self.failures: list[int] = []
        """Exit codes of workers that ended with an error that nobody expected."""
        self.alive: list[Worker] = []
        self.poor_each = 0
        """Each n-th worker may open few files; 0: none."""

    def __enter__(self) -> "Workers":
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.alive:
            worker.process.kill()
            worker.process.wait()

    def start(self, *, joins: bool = False) -> Worker:
        """`joins`: it begins no crawl anew when the one that it is to join has just ended."""
        self._started += 1
        agent = f"{self._name}-{self._started}"
        command = [*self.command, "-s", f"USER_AGENT={agent}", *(["-s", "SCHEDULER_PERSIST=True"] if joins else [])]
        poor = self.poor_each and self._started % self.poor_each == 0
        with self._log.open("ab") as log:
            files = [None, log.fileno(), log.fileno()]
            process = begin(self._program, *command, cwd=self.folder, env=self.environment, files=files)
        if poor:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FEW_DESCRIPTORS, FEW_DESCRIPTORS))
        self.alive.append(Worker(agent, process))
        return self.alive[-1]

    def expect(self, worker: Worker, codes: set[int]) -> None:
        """Says with which exit codes it may end from now on; it is not replaced then."""
        self._expected[worker.agent] = self._expected.get(worker.agent, {0}) | codes

    def tend(self) -> None:
        """Forgets those that have ended; one that ended with an error is replaced."""
        for worker in list(self.alive):
            if (code := worker.process.poll()) is not None:
                self.alive.remove(worker)
                if code not in self._expected.get(worker.agent, {0}):
                    self.failures.append(code)
                    assert len(self.failures) <= MOST_FAILURES, f"workers end with {self.failures}:\n{self.said}"
                    self.start(joins=True)

    def at_work(self, progress: Progress, dice: random.Random) -> Worker | None:
        """One of those that have asked the site for something."""
        working = [worker for worker in self.alive if worker.agent in progress.agents and worker.process.poll() is None]
        return dice.choice(working) if working else None

    def kill(self, worker: Worker) -> None:
        """By SIGKILL; what it has sent until then is sent."""
        worker.process.kill()
        worker.process.wait()
        self.alive.remove(worker)

    @property
    def said(self) -> str:
        """The end of what they all logged."""
        return self._log.read_text(errors="replace")[-6000:]
