"""Queues and workers: the queue depth by spider, and the workers with the requests that they hold."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from harvester.control.services.spiders import spiders
from harvester.frontier import operations
from harvester.frontier.messages import Depth, WorkerStatus
from harvester.frontier.workers import is_gone
from harvester.jobs.service import JobService
from harvester.monitors.history import LOST_AFTER_SECONDS

MOST = 1000
"""Maximum number of workers in a response."""

WorkerState = Literal["working", "idle", "silent", "gone"]


@dataclass(frozen=True, slots=True)
class Queue:
    """The frontier of a spider."""

    spider: str
    depth: Depth


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that fetches, as Redis and the history of runs know it."""

    name: str
    spider: str
    host: str
    pid: int
    state: WorkerState
    """gone: the process has ended; others get its requests when the leases expire. silent: no heartbeat comes."""
    holds: int
    """Number of requests that it holds."""
    oldest_s: float
    """Seconds since it took the oldest request that it still holds."""
    silent_s: float
    """Seconds since its last heartbeat."""
    run: str
    """Id of the worker's run; empty if unknown."""
    began_at: datetime | None
    records: int
    """Number of records that its run has stored."""


@dataclass(frozen=True, slots=True)
class WorkerList:
    """Those that hold most first."""

    workers: list[Worker]
    more: bool


class Queues:
    """The queues of all spiders of the project."""

    def __init__(self, service: JobService) -> None:
        self._config = service.config
        self._database = service.database

    async def depths(self, spider: str = "") -> list[Queue]:
        """Returns the queues of spiders that ever queued a request, by name. Raises UnknownJob, ServiceError."""
        found = await operations.depths(self._config, await spiders(spider))
        return [Queue(name, depth) for name, depth in sorted(found.items())]

    async def workers(self, spider: str = "", most: int = MOST) -> WorkerList:
        """Returns the workers, most requests first. Raises UnknownJob, ServiceError."""
        of_spiders = await operations.workers(self._config, await spiders(spider))
        runs = {(run["host"], run["pid"]): run for run in await self._running()}
        found = [
            _worker(name, status, each, runs)
            for each, by_name in of_spiders.items()
            for name, status in by_name.items()
        ]
        found.sort(key=lambda each: (-each.holds, each.silent_s, each.name))
        most = min(most, MOST)
        return WorkerList(found[:most], len(found) > most)

    async def _running(self) -> list[dict[str, object]]:
        since = datetime.now(UTC) - timedelta(seconds=LOST_AFTER_SECONDS)
        running = {"state": "running", "heartbeat_at": {"$gte": since}}
        fields = {"host": 1, "pid": 1, "started_at": 1, "counts": 1}
        return await self._database["runs"].find(running, fields, limit=MOST).to_list()


def _worker(
    name: str, status: WorkerStatus, spider: str, runs: dict[tuple[object, object], dict[str, object]]
) -> Worker:
    host, _, rest = name.partition(":")
    number = rest.partition(":")[0]
    pid = int(number) if number.isdecimal() else 0
    run = runs.get((host, pid), {})
    counts, began_at = run.get("counts"), run.get("started_at")
    return Worker(
        name=name,
        spider=spider,
        host=host,
        pid=pid,
        state=_state(name, status),
        holds=status.leased,
        oldest_s=status.oldest_s,
        silent_s=status.silent_s,
        run=str(run.get("_id", "")),
        began_at=began_at if isinstance(began_at, datetime) else None,
        records=sum(counts.values()) if isinstance(counts, dict) else 0,
    )


def _state(name: str, status: WorkerStatus) -> WorkerState:
    if is_gone(name):
        return "gone"
    if status.silent_s >= LOST_AFTER_SECONDS:
        return "silent"
    return "working" if status.leased else "idle"
