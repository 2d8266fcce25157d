"""Everything that may strike a crawl at once, and whether each worker then says the truth with its exit code."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.killing import POLL_S, STALLED_S, Killing, Plan

HOUR_S = 3600
DRAINED = {0, 130, 143}
"""It may have come to the end of its work at that moment."""
NO_ROOM = {0, 4}
FAKETIME = "faketime/libfaketime.so.1"
"""Below a folder of /usr/lib that is named after the machine; Debian's package libfaketime."""


class Storm(NamedTuple):
    """How often each strikes."""

    worker: int
    redis: int
    mongodb: int
    drain: int
    full_disk: int
    zombie: int
    clock_back: int


class Disk:
    """`with Disk(folder, size_mb) as disk`: a file system of its own, that can be filled up and emptied. Wants root."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        self._size_mb = size_mb

    def __enter__(self) -> "Disk":
        self.folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self._size_mb}m", "tmpfs", self.folder], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self.folder], check=True)

    def fill(self) -> None:
        """Leaves no room."""
        with contextlib.suppress(OSError), self._filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def empty(self) -> None:
        """Makes room again."""
        self._filler.unlink()


class Storming(Killing):
    """Strikes of all kinds, at moments drawn at random. Each struck worker is expected to end accordingly."""

    def __init__(self, storm: Storm, disk: Disk, plan: Plan, *rest: Any) -> None:
        super().__init__(plan, *rest)
        self._storm, self._disk = storm, disk
        self._strikes |= {
            "drain": self._drain,
            "full_disk": self._fill_disk,
            "zombie": self._make_zombie,
            "clock_back": self._set_clock_back,
        }

    def victims(self) -> Iterator[str]:
        for name, times in self._storm._asdict().items():
            yield from [name] * times

    def _drain(self) -> None:
        worker = self._one_at_work()
        self._workers.expect(worker, DRAINED)
        worker.process.terminate()
        self._fill(beyond=worker)

    def _fill_disk(self) -> None:
        """All workers end, and are started anew when there is room."""
        self._disk.fill()
        until = time.monotonic() + STALLED_S
        while self._workers.alive:
            for worker in self._workers.alive:  # some may be started meanwhile, for one that found a server away
                self._workers.expect(worker, NO_ROOM)
            self._workers.tend()
            assert time.monotonic() < until, self._workers.said
            time.sleep(POLL_S)
        self._disk.empty()
        self._fill()

    def _make_zombie(self) -> None:
        """Sleeps until what it held was given to others, then goes on."""
        worker = self._one_at_work()
        worker.process.send_signal(signal.SIGSTOP)
        self._fill(beyond=worker)
        try:
            self.waits_until(lambda: not self._held_by(worker))
        finally:
            worker.process.send_signal(signal.SIGCONT)

    def _set_clock_back(self) -> None:
        """By an hour, for the rest of the crawl: libfaketime under the Redis that is started anew."""
        library = next((str(path) for path in Path("/usr/lib").glob(f"*/{FAKETIME}")), "")
        assert library, "install libfaketime, as make chaos does"
        self._servers.redis.environment = {
            "LD_PRELOAD": library,
            "FAKETIME": f"-{HOUR_S}s",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self._kill_server(self._servers.redis)
