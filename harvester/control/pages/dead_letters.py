"""Dead letters by reason, and requeueing them: never more than the page showed."""

from functools import partial

from harvester.control.pages.components import Cell, RowAction, RowsTable, TableRow, Tag, address, at, confirmed, done
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext
from harvester.control.services.dead_letters import DeadLetterGroup, DeadLetters, Groups, Letter, RequeueSelection
from harvester.formatting import counted

MOST = 50
"""Maximum number of letters to show."""
EVERY_S = 5.0
"""Seconds between two reads, which are expensive: they go through many letters."""
GROUPS = ("outcome", "reason", "spider", "+letters", "first", "last")
LETTERS = ("given up", "address", "outcome", "reason", "+attempts", "+workers lost")
EMPTY = """Nothing was given up. Requests that fail for good are kept here, with the reason, until they are requeued:

harvester frontier dead bluesky"""
REQUEUE = RowAction("requeue", "Requeue", "r")


async def view(room: PageContext, spider: str, outcome: str, pattern: str) -> None:
    """`spider`, `outcome`, `pattern`: select the letters to list; without a spider no letters are listed."""
    said = "Requests that were given up. Items of jobs are retried on the page of their job."
    letters = DeadLetters(room.here.jobs)
    with frame(room, "Dead letters", "Dead letters", said):
        shown: dict[str, DeadLetterGroup] = {}

        async def requeue_group(row: str, _: str) -> None:
            group = shown[row]
            wanted = RequeueSelection(outcome=group.outcome, pattern=group.pattern, expect=group.letters)
            await _requeue(room, group.spider, group.letters, wanted)

        async def requeue_one(row: str, _: str) -> None:
            await _requeue(room, spider, 1, RequeueSelection(ids=[row]))

        with Tag("section", classes="card", aria_label="Groups"):
            groups = RowsTable("By outcome and reason, the most first", GROUPS, EMPTY, requeue_group)

        def show(seen: Groups) -> None:
            shown.clear()
            shown.update({_key(group): group for group in seen.groups})
            left_out = sum(seen.by_outcome.values()) - seen.looked_at
            caption = f"Of the latest {seen.looked_at:,}; {left_out:,} are older" if left_out > 0 else ""
            groups.show([_group(group) for group in seen.groups], caption)

        await room.broadcaster.watch(("dead groups", spider), partial(letters.groups, spider), show, EVERY_S)
        if spider:
            with Tag("section", classes="card", aria_label="Letters"):
                rows = RowsTable(f"Of {spider}, the latest first", LETTERS, "None is like this.", requeue_one)
            await room.broadcaster.watch(
                ("dead letters", spider, outcome, pattern),
                partial(letters.letters, spider, outcome, pattern or None, MOST),
                lambda found: rows.show([_letter(each) for each in found]),
                EVERY_S,
            )


async def _requeue(room: PageContext, spider: str, number: int, wanted: RequeueSelection) -> None:
    what = "It is" if number == 1 else f"These {number:,} are"
    said = f"{what} ready again, with all attempts, and fetched as soon as a worker comes to it. This cannot be undone."
    if not await confirmed(f"Requeue {counted(number, 'dead letter')}?", said, f"Requeue {number:,}"):
        return
    target = address("dead-letters", spider=spider, outcome=wanted.outcome)
    requeued = await room.act(
        "requeue_dead_letters", target, lambda: DeadLetters(room.here.jobs).requeue(spider, wanted)
    )
    if requeued:
        done(requeued.said)


def _group(group: DeadLetterGroup) -> TableRow:
    href = address("dead-letters", spider=group.spider, outcome=group.outcome, pattern=group.pattern)
    cells: list[Cell | str | int] = [Cell(group.outcome.replace("_", " ") or "(none)", href), group.pattern]
    cells += [group.spider, group.letters, at(group.first_at), at(group.last_at)]
    return TableRow(_key(group), cells, [REQUEUE], f"{counted(group.letters, 'dead letter')} with {group.outcome}")


def _letter(letter: Letter) -> TableRow:
    cells: list[Cell | str | int] = [at(letter.at), letter.url, letter.outcome.replace("_", " "), letter.reason]
    return TableRow(letter.id, [*cells, letter.attempts, letter.deliveries], [REQUEUE], letter.url)


def _key(group: DeadLetterGroup) -> str:
    return "\0".join((group.spider, group.outcome, group.pattern))
