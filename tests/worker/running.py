"""`harvester worker manners ...` as a process, and what became of its workers."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from harvester.config import Config
from tests.forking import Begun, begin
from tests.root import ROOT

SECONDS = 240
"""After which something that should happen counts as missing."""


class Workers:
    """A supervisor with its workers, in a folder of its own."""

    def __init__(self, folder: Path, config: Config, redis_url: str) -> None:
        assert config.mongodb_uri
        self.folder = folder
        self.log = folder / "log"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in ("CI", "NO_LIVE")},
            "PYTHONPATH": str(ROOT),
            "SCRAPY_SETTINGS_MODULE": "tests.worker.settings",
            "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
            "HARVESTER_REDIS_URL": redis_url,
            "HARVESTER_DATABASE": config.database,
            "HARVESTER_STATE_DIR": str(config.state_dir),
            "HARVESTER_MAX_DELIVERIES": "1",
        }
        self.process: Begun

    def start(self, *words: str, **arguments: object) -> None:
        given = [word for name, value in arguments.items() for word in ("-a", f"{name}={value}")]
        patience = () if "--drain-seconds" in words else ("--drain-seconds", str(SECONDS))
        command = ["tests.worker.command", "worker", "manners", *words, *patience, *given]
        with self.log.open("wb") as log:
            files = [None, log.fileno(), log.fileno()]
            self.process = begin(*command, cwd=self.folder, env=self.environment, files=files)

    def run(self, *words: str, **arguments: object) -> int:
        """To its end; the exit code."""
        self.start(*words, **arguments)
        return self.process.wait(SECONDS)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends the signal and waits; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def pids(self, worker: int) -> list[int]:
        """Of the lives of that worker, the present one last."""
        return [int(pid) for pid in re.findall(rf"Worker {worker}: started, pid (\d+)", self.said)]

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        until = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < until, f"not within {SECONDS} s: {what}\n{self.said[-4000:]}"
            time.sleep(0.05)

    def wait_for_pages(self, worker: int, life: int = 1) -> int:
        """Until that life of the worker has fetched some; its pid."""

        def fetching() -> bool:
            pids = self.pids(worker)
            lines = re.findall(rf"Worker {worker}: pid (\d+), running.*, ([1-9][\d,]*) records", self.said)
            return len(pids) >= life and any(int(pid) == pids[life - 1] for pid, _ in lines)

        self.wait_for(fetching, f"worker {worker} fetches pages")
        return self.pids(worker)[life - 1]

    def stop(self) -> None:
        """Whatever still runs is killed."""
        if not hasattr(self, "process"):
            return
        children = psutil.Process(self.process.pid).children() if self.process.poll() is None else []
        self.process.kill()
        self.process.wait()
        for child in children:
            child.kill()


def gone(pid: int) -> bool:
    """Whether the process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
