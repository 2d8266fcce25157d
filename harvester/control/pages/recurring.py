"""Feeds, endpoints and other items of recurring jobs: their state, and adding, removing and restarting them."""

import asyncio
import json
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from harvester.control.pages.components import (
    Cell,
    Field,
    InputForm,
    RowAction,
    RowsTable,
    TableRow,
    Tag,
    address,
    at,
    button,
    confirmed,
    done,
    filled,
)
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext, Say, complain
from harvester.control.services.action_result import ActionResult
from harvester.control.services.watching import NewItem, WatchedPage, Watching, usual_key
from harvester.exceptions import UsageError
from harvester.formatting import counted
from harvester.jobs.changes import LEAST_OFTEN, MOST_OFTEN
from harvester.jobs.documents import Job
from harvester.jobs.late import find_late
from harvester.jobs.recurring import RecurringItem, Standing, standing_jobs
from harvester.jobs.submission import Submitted

MOST = 50
"""Maximum number of items to show at a time."""
EVERY_S, FILTERED_S = 5.0, 30.0
"""Seconds between two reads, without and with a filter. A filter may have to search all items."""
COLUMNS = ("item", "spider", "standing", "+failures", "last look", "next look", "how often", "why")
EMPTY = "Nothing that is watched is like this. Take the filters away to see all."
NO_JOB = """No standing job goes on, whose items are looked at again and again. To begin one, type:

harvester crawl feeds -a feeds=https://example.org/feed.xml"""
INPUT_HINT = 'of an endpoint the lines of its table, as url = "https://api.example.org/prices"'
OFTEN_HINT = "as the policy of its job says: 2 is twice as often, 0.5 half as often"
RESTART, OFTEN, REMOVE = (
    RowAction("restart", "Restart", "r"),
    RowAction("often", "How often"),
    RowAction("remove", "Remove"),
)
TONES = {
    Standing.WAITING: "idle",
    Standing.RUNNING: "busy",
    Standing.SUCCESS: "good",
    Standing.FAILED: "warn",
    Standing.PERMANENTLY_FAILED: "bad",
    Standing.REMOVED: "skip-tone",
}


async def view(room: PageContext, spider: str, standing: str, text: str, after: str) -> None:
    """`spider`, `standing`, `text`, `after`: select the items to list."""
    jobs = await standing_jobs(room.here.jobs)
    chosen = [Standing(standing)] if standing in list(Standing) else []
    said = "Items of standing jobs, which are looked at again and again. Workers see a change within a second."
    with frame(room, "Feeds and endpoints", "Feeds", said):
        if not jobs:
            Tag("p", NO_JOB, "empty")
            return
        shown: dict[str, RecurringItem] = {}

        async def act(row: str, action: str) -> None:
            await ACTS[action](room, shown[row])

        with Tag("section", classes="card", aria_label="Feeds and endpoints"):
            _filters({job.spider for job in jobs}, spider, standing if chosen else "", text)
            late = Tag("p", "", "said", role="status")
            rows = RowsTable("In the order of their jobs", COLUMNS, EMPTY, act)
            with Tag("div", classes="line").style("margin: 12px 0 0"):
                here = partial(address, "watched", spider=spider, standing=standing, text=text)
                Tag("a", "To the first", "act", href=here()).visible = bool(after)
                next_page = Tag("a", "Next", "act", href=here())
                of_spider = f" of {spider}" if spider else ""
                button(f"Restart all{of_spider} that failed", partial(_restart_failed, room, spider))
        with Tag("details", classes="card"):
            Tag("summary", "Watch something more")
            _add_form(room, jobs)

        def show(seen: tuple[WatchedPage, str]) -> None:
            page, late.text = seen
            late.visible = bool(late.text)
            shown.clear()
            shown.update({each.id: each for each in page.items})
            rows.show([_row(each) for each in page.items])
            next_page.visible = bool(page.next)
            next_page.set("href", here(after=page.next or ""))

        watching = Watching(room.here.jobs)

        async def read() -> tuple[WatchedPage, str]:
            waits = (await find_late(room.here.jobs.ledger, ())).jobs
            said = " ".join(f"{job}: {why}" for job, why in waits.items())
            return await watching.list(spider, "", chosen, text, after, MOST), said

        key = "watched", spider, standing, text, after
        await room.broadcaster.watch(
            key,
            read,
            show,
            FILTERED_S if chosen or text else EVERY_S,
        )


def _filters(spiders: set[str], spider: str, standing: str, text: str) -> None:
    """Shows the filters. They are part of the page's address, so a link shows others the same items."""
    with Tag("div", classes="line end"):
        of = {"": "all", **{each: each for each in sorted(spiders | {spider} - {""})}}
        by_spider = ui.select(of, label="Spider", value=spider).props("outlined dense options-dense")
        words = {"": "all", **{str(each): _words(each) for each in Standing}}
        by_standing = ui.select(words, label="How it stands", value=standing).props("outlined dense options-dense")
        by_text = ui.input("In name or reason", value=text).props("outlined dense data-search maxlength=200")

        def filter_() -> None:
            given = {"spider": by_spider.value, "standing": by_standing.value, "text": by_text.value}
            ui.navigate.to(address("watched", **{name: str(value or "").strip() for name, value in given.items()}))

        by_text.on("keydown.enter", filter_)
        button("Show", filter_, "main")


def _add_form(room: PageContext, jobs: Sequence[Job]) -> None:
    by_id = {job.id: job for job in jobs}

    async def add(form: InputForm) -> None:
        job, often = by_id[form["job"]], read_often(form["often"])
        item, kind = NewItem(form["key"], read_input(form["input"])), form["kind"]

        async def do() -> Submitted:
            return await Watching(room.here.jobs).add(job.spider, [item], job.id, kind, often)

        added = await room.act("add_watched", "/watched", do, say=form.complain)
        if added and added.bad:
            form.complain(added.bad_lines[0].reason)
        elif added and added.known:
            done(f"{job.id} had {item.key} already: it is watched.")
        elif added:
            key = await asyncio.to_thread(usual_key, job.spider, item, kind)
            done(f"{key} is watched from now on.", partial(_take_out, room, job.id, key))

    fields = [
        Field("job", "Standing job", jobs[0].id, "the one that is to look at it", [*by_id]),
        Field("key", "Address of a feed, or name of an endpoint"),
        Field("kind", "Kind (may stay empty)", hint="where the spider has several; empty: its first"),
        Field("often", "How many times as often (may stay empty)", hint=OFTEN_HINT),
        Field("input", "Input (may stay empty)", hint=INPUT_HINT, lines=True),
    ]
    form = InputForm(fields, add)
    with Tag("div", classes="line"):
        button("Add", form.submit, "main")


def read_input(text: str) -> dict[str, Any]:
    """Returns the TOML of the input field, converted to JSON values. Raises UsageError."""
    try:
        read: dict[str, Any] = json.loads(json.dumps(tomllib.loads(text), default=str))
    except (ValueError, RecursionError) as error:  # ValueError also for numbers with thousands of digits
        raise UsageError(f'The input cannot be read: {error}. Give lines as url = "https://example.org/".') from None
    return read


def read_often(text: str) -> float | None:
    """Reads a factor; None for an empty text. Raises UsageError."""
    try:
        often = float(text) if text else None
    except ValueError:
        often = 0.0
    if often is not None and not LEAST_OFTEN <= often <= MOST_OFTEN:
        raise UsageError(f"How many times as often: {text!r} is no number from {LEAST_OFTEN:g} to {MOST_OFTEN:g}.")
    return often


# What is done to those that are shown ---------------------------------------------------------------------


async def _restart_failed(room: PageContext, spider: str) -> None:
    """Restarts the failed items. If more items have failed by the time of the confirmation, nothing is restarted."""
    watching = Watching(room.here.jobs)
    number = await room.look_up(lambda: watching.failed(spider))
    if number is None:
        return
    what = counted(number, "item")
    if not number:
        complain("None has failed.")
        return
    said = f"{what} that failed: looked at again, now. If more have failed by then, nothing is done."
    if await confirmed(f"Restart {what}?", said, f"Restart {number:,}"):
        target = address("watched", spider=spider, expect=str(number))
        _tell(await room.act("restart_watched", target, lambda: watching.restart(spider, expect=number)))


async def _restart(room: PageContext, item: RecurringItem) -> None:
    if await confirmed(f"Restart {item.name}?", "It is looked at now, and then as often as before.", "Restart"):
        watching = Watching(room.here.jobs)
        _tell(
            await room.act(
                "restart_watched", _target(item.job, item.id), lambda: watching.restart(job=item.job, names=[item.id])
            )
        )


async def _set_often(room: PageContext, item: RecurringItem) -> None:
    before = item.often or 1.0

    async def do(form: InputForm) -> float | None:
        often = read_often(form["often"]) or 1.0
        return often if await _change(room, item, often, form.complain) else None

    async def undo() -> None:
        if await _change(room, item, before):
            done(f"{item.name} is looked at {before:g} times as often again.")

    field = Field("often", "How many times as often", f"{before:g}", OFTEN_HINT)
    often = await filled(f"How often is {item.name} looked at?", f"Its policy: {item.recheck}.", [field], "Change", do)
    if often:
        done(f"{item.name} is looked at {often:g} times as often as its policy says.", undo)


async def _change(room: PageContext, item: RecurringItem, often: float, say: Say = complain) -> ActionResult | None:
    async def do() -> ActionResult:
        return await Watching(room.here.jobs).change(item.job, [item.id], {}, often)

    return await room.act("change_watched", _target(item.job, item.id), do, say=say)


async def _remove(room: PageContext, item: RecurringItem) -> None:
    said = "It is not looked at any more. Its records stay."
    if await confirmed(f"Remove {item.name}?", said, "Remove"):
        await _take_out(room, item.job, item.id, item.name)


async def _take_out(room: PageContext, job: str, item: str, name: str = "") -> None:
    """`item`: its id or key. `name`: a different name, for people."""

    async def add_again() -> None:
        async def do() -> int:  # restores its input and its state
            return await room.here.jobs.change(job, [item], {}, foreign=True)

        if await room.act("add_watched", _target(job, item), do):
            done(f"{name or item} is watched again.")

    removed = await room.act("remove_watched", _target(job, item), lambda: Watching(room.here.jobs).remove(job, [item]))
    if removed:
        done(f"{name or item} is removed; its records stay.", add_again)


ACTS: dict[str, Callable[[PageContext, RecurringItem], Any]] = {
    "restart": _restart,
    "often": _set_often,
    "remove": _remove,
}
"""Name of a row's action -> its function."""


def _tell(restarted: ActionResult | None) -> None:
    if restarted:
        done(restarted.said)


def _target(job: str, item: str) -> str:
    """Returns the target for the audit."""
    return address("watched", job=job, item=item)


def _row(item: RecurringItem) -> TableRow:
    often = f"{item.recheck}, {item.often:g} times as often" if item.often not in (None, 1.0) else item.recheck
    cells: list[Cell | str | int] = [
        Cell(item.name, address("jobs", item.job, "items", item=item.id)),
        item.spider,
        Cell(_words(item.standing), tone=TONES[item.standing]),
        item.failures,
        at(item.last_at),
        at(item.next_at),
        often,
        item.reason,
    ]
    restart = [] if item.standing in (Standing.WAITING, Standing.RUNNING) else [RESTART]
    change = [] if item.standing is Standing.REMOVED else [OFTEN, REMOVE]
    return TableRow(item.id, cells, restart + change, item.name)


def _words(standing: Standing) -> str:
    return standing.lower().replace("_", " ")
