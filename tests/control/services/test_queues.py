"""Queue depth and workers, as Redis and the history of runs know them."""

import socket
from datetime import UTC, datetime, timedelta

from pymongo.database import Database

from harvester.control.services.queues import Queues
from harvester.frontier.messages import Dead, Done
from harvester.frontier.store import Frontier
from harvester.frontier.workers import own_name
from harvester.jobs.service import JobService
from tests.frontier.pushes import push

NOW = datetime.now(UTC)


async def test_a_queue_says_how_many_requests_are_where(service: JobService, frontier: Frontier) -> None:
    queues = Queues(service)
    assert await queues.depths() == []
    leased = (await frontier.exchange("w", [push(number) for number in range(5)], 3, 10)).leased
    await frontier.exchange("w", [Done(leased[0].id), Dead(leased[1].id, "blocked", "HTTP 403")], 0, 10)
    [queue] = await queues.depths()
    depth = queue.depth
    assert queue.spider == "feeds"
    assert (depth.queued, depth.ready, depth.leased, depth.done, depth.dead) == (5, 2, 1, 1, 1)
    assert depth.dead_by_outcome == {"blocked": 1}
    status = await frontier.status()
    assert [getattr(depth, name) for name in ("queued", "ready", "parked", "waiting", "leased", "done", "dead")] == [
        getattr(status, name) for name in ("queued", "ready", "parked", "waiting", "leased", "done", "dead")
    ]


async def test_workers_say_what_they_hold_and_which_run_they_are_of(
    service: JobService, frontier: Frontier, mongodb: Database[dict[str, object]]
) -> None:
    at_work, gone = own_name(), own_name()
    pid = at_work.split(":")[1]
    gone = gone.replace(f":{pid}:", ":999999999:")
    mongodb["runs"].insert_one(
        {
            "_id": "a-run",
            "state": "running",
            "host": socket.gethostname(),
            "pid": int(pid),
            "started_at": NOW - timedelta(hours=1),
            "heartbeat_at": datetime.now(UTC),
            "counts": {"post": 7},
        }
    )
    await frontier.exchange(at_work, [push(number) for number in range(3)], 2, 10)
    await frontier.exchange(gone, [], 1, 10)
    await frontier.exchange("elsewhere:1:abc", [], 0, 10)
    workers = {each.name: each for each in (await Queues(service).workers()).workers}
    assert {name: (each.state, each.holds) for name, each in workers.items()} == {
        at_work: ("working", 2),
        gone: ("gone", 1),
        "elsewhere:1:abc": ("idle", 0),
    }
    known = workers[at_work]
    assert (known.spider, known.run, known.records, known.pid) == ("feeds", "a-run", 7, int(pid))
    page = await Queues(service).workers("feeds", most=1)
    assert ([each.name for each in page.workers], page.more) == ([at_work], True)
