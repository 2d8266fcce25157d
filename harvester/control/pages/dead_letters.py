"""Requests that were given up, by reason, and having them tried again: no more of them than was shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from harvester.control.pages.frame import frame
from harvester.control.pages.parts import Action, Cell, Row, Rows, Tag, address, at, confirmed, done
from harvester.control.pages.room import Room
from harvester.control.services.queues import Queue, Queues
from harvester.formatting import counted
from harvester.frontier import operations
from harvester.frontier.messages import DeadLetter

MOST = 50
"""Letters that are shown."""
EMPTY = """Nothing was given up. Requests that fail for good are kept here, with the reason, until they are requeued:

harvester frontier dead bluesky"""
REQUEUE = Action("requeue", "Requeue", "r")


@dataclass(frozen=True, slots=True)
class _Seen:
    queues: list[Queue]
    letters: list[DeadLetter]


async def view(room: Room, spider: str, outcome: str) -> None:
    """`spider`, `outcome`: whose letters are listed."""
    said = "Requests that were given up. Items of jobs are retried on the page of their job."
    with frame(room, "Dead letters", "Dead letters", said):
        numbers: dict[str, int] = {}

        async def requeue_group(row: str, action: str) -> None:
            of_spider, of_outcome = row.split("\0")
            await _requeue(room, of_spider, of_outcome, numbers[row])

        async def requeue_one(row: str, action: str) -> None:
            await _requeue(room, spider, outcome, 1, [row])

        with Tag("section", classes="card", aria_label="By outcome"):
            groups = Rows("By spider and outcome", ("outcome", "spider", "+letters"), EMPTY, requeue_group)
        if spider:
            with Tag("section", classes="card", aria_label="Letters"):
                columns = ("given up", "address", "outcome", "reason", "+attempts", "+workers lost")
                letters = Rows(f"Of {spider}, the latest first", columns, "None is like this.", requeue_one)

        def show(seen: _Seen) -> None:
            numbers.clear()
            for queue in seen.queues:
                for name, number in queue.depth.dead_by_outcome.items():
                    numbers[f"{queue.spider}\0{name}"] = number
            groups.show([_group(key, number) for key, number in sorted(numbers.items(), key=lambda pair: -pair[1])])
            if spider:
                letters.show([_letter(each) for each in seen.letters])

        async def read() -> _Seen:
            queues = await Queues(room.here.jobs).depths()
            config = room.here.config
            found = await operations.dead(config, spider, outcome or None, MOST) if spider else []
            return _Seen([queue for queue in queues if queue.depth.dead], found)

        await room.broadcaster.watch(("dead letters", spider, outcome), read, show)


async def _requeue(room: Room, spider: str, outcome: str, number: int, ids: Sequence[str] = ()) -> None:
    what = "It is" if number == 1 else f"These {number:,} are"
    said = f"{what} ready again, with all attempts, and fetched as soon as a worker comes to it. This cannot be undone."
    if not await confirmed(f"Requeue {counted(number, 'dead letter')}?", said, f"Requeue {number:,}"):
        return
    config = room.here.config

    async def requeue() -> int:
        wanted = ids or [letter.id for letter in await operations.dead(config, spider, outcome or None, number)]
        return await operations.replay(config, spider, wanted) if wanted else 0

    requeued = await room.act("requeue_dead_letters", address("dead-letters", spider=spider, outcome=outcome), requeue)
    if requeued is not None:
        done(f"{counted(requeued, 'dead letter')} of {spider} requeued.")


def _group(key: str, number: int) -> Row:
    spider, outcome = key.split("\0")
    cell = Cell(outcome.replace("_", " ") or "(none)", address("dead-letters", spider=spider, outcome=outcome))
    return Row(key, [cell, spider, number], [REQUEUE], f"{counted(number, 'dead letter')} of {spider} with {outcome}")


def _letter(letter: DeadLetter) -> Row:
    when = at(datetime.fromtimestamp(letter.at, UTC))
    cells: list[Cell | str | int] = [when, letter.url, letter.outcome.replace("_", " "), letter.reason]
    return Row(letter.id, [*cells, letter.attempts, letter.deliveries], [REQUEUE], letter.url)
