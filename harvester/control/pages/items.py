"""The items of a job: a table with filters that are kept in the page's address; and a single item with its history."""

import json

from nicegui import ui

from harvester.control.pages.components import (
    Cell,
    Facts,
    RowAction,
    RowsTable,
    TableRow,
    Tag,
    address,
    at,
    button,
    confirmed,
    done,
    state_cell,
)
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext
from harvester.jobs.documents import Item, ItemState
from harvester.jobs.listing import MOST_SEARCHED, ItemFilter, ItemReport

MOST = 50
"""Maximum number of items to show at a time."""
COLUMNS = ("item", "state", "stage", "outcome", "reason", "+attempts", "changed")


async def section(room: PageContext, job: str, which: ItemFilter, after: str) -> None:
    """Shows the items that match a filter, after the item `after`."""
    table = _Table(room, job, which, after)
    await table.read()


class _Table:
    """A table that is read when the filter changes or on request: a million items cannot be watched."""

    def __init__(self, room: PageContext, job: str, which: ItemFilter, after: str) -> None:
        self._room = room
        self._job = job
        self._after = after
        with Tag("section", classes="card", aria_label="Items") as self._card:
            with Tag("div", classes="line end"):
                states: dict[str, str] = {"": "all states", **{str(state): str(state) for state in ItemState}}
                first = which.state if which.state in states else ""
                self._state = ui.select(states, label="State", value=first).props("outlined dense options-dense")
                self._outcome = ui.input("Outcome", value=which.outcome).props("outlined dense")
                self._site = ui.input("Site", value=which.site).props("outlined dense")
                self._text = ui.input("In key or reason", value=which.text).props("outlined dense data-search")
                button("Show", self.filter, "main")
            empty = "No item is like this. Take the filters away to see all."
            self._rows = RowsTable("Items", COLUMNS, empty, self.act)
            with Tag("div", classes="line").style("margin: 12px 0 0"):
                self._back = button("To the first", self.first)
                self._next = button("Next", self.next)
                button("Read again", self.read)
        self._state.on_value_change(self.filter)
        for field in (self._outcome, self._site, self._text):
            field.on("keydown.enter", self.filter)
        self._asked = 0
        """Number of reads; the results of an earlier filter are dropped."""
        self._found: list[Item] = []
        self._end = ""
        """Id to continue the next search after."""
        self._looks = 0

    @property
    def which(self) -> ItemFilter:
        fields = (self._state, self._outcome, self._site, self._text)
        return ItemFilter(*(str(field.value or "").strip() for field in fields))

    async def filter(self) -> None:
        self._after = ""
        await self.read()

    async def first(self) -> None:
        await self.filter()

    async def next(self) -> None:
        self._after = self._end
        await self.read()

    async def read(self) -> None:
        self._asked += 1
        self._found, self._end, self._looks = [], self._after, 0
        which = self.which
        await self._look(which, self._asked)
        query = {"state": which.state, "outcome": which.outcome, "site": which.site, "text": which.text}
        path = address("jobs", self._job, **query, after=self._after)
        if ui.context.client.has_socket_connection:
            ui.navigate.history.replace(path)

    async def _look(self, which: ItemFilter, asked: int) -> None:
        """Shows the results of a search, and continues it when they do not fill the table and there are more items."""
        most, after = MOST - len(self._found), self._end
        jobs = self._room.here.jobs
        page = await self._room.look_up(lambda: jobs.items_page(self._job, which, most, after, with_results=False))
        if page is None or asked != self._asked:  # the filter was changed meanwhile
            return
        self._found += [each.item for each in page.items]
        self._end = page.end
        self._looks += 1
        goes_on = len(page.items) < most and bool(page.end)
        self._next.visible = bool(page.end) and not goes_on
        self._back.visible = bool(self._after)
        so_far = f"Items: {self._looks * MOST_SEARCHED:,} were looked at so far" if goes_on else ""
        self._rows.show([_row(item) for item in self._found], so_far)
        if goes_on:
            with self._card:
                ui.timer(0, lambda: self._look(which, asked), once=True)

    async def act(self, item: str, action: str) -> None:
        await retry(self._room, self._job, item)
        await self.read()


def _row(item: Item) -> TableRow:
    changed = at(item.updated_at)
    later = f"again at {at(item.due_at)}" if item.due_at and item.state is ItemState.WAITING else ""
    cells: list[Cell | str | int] = [
        Cell(item.key, href=address("jobs", item.job, "items", item=item.id)),
        state_cell(item.state, f"{item.state}, {later}" if later else ""),
        item.stage.replace("_", " "),
        item.outcome.replace("_", " "),
        item.reason,
        item.attempts,
        changed,
    ]
    can_retry = item.state in (ItemState.DONE, ItemState.FAILED, ItemState.SKIPPED) or bool(later)
    return TableRow(item.id, cells, [RowAction("retry", "Retry", "r")] if can_retry else [], item.key)


async def retry(room: PageContext, job: str, item: str) -> bool:
    """Asks for confirmation and retries an item."""
    if not await confirmed("Retry 1 item?", f"{item} waits again, now, with all its attempts.", "Retry 1"):
        return False
    number = await room.act("retry_items", address("jobs", job, item=item), lambda: room.here.jobs.retry(job, [item]))
    if number is not None:
        done("1 item is tried again." if number else "Nothing was retried: it waits already, or is being worked at.")
    return bool(number)


async def view(room: PageContext, job: str, item: str) -> None:
    """Shows an item: its state, attempts and results. Raises UnknownJob."""
    report = await room.here.jobs.item(job, item)
    with frame(room, report.item.key, "Jobs", f"{report.item.kind} of {job}"):
        with Tag("div", classes="line"):
            Tag("a", "Back to the job", "act", href=address("jobs", job))

            async def again() -> None:
                await retry(room, job, item)

            again_button = button("Retry", again, data_key="r")
        with Tag("section", classes="card", aria_label="State"):
            facts = Facts()
        with Tag("section", classes="card", aria_label="Attempts"):
            attempts = RowsTable(
                "Attempts, the latest first",
                ("+attempt", "ended", "state", "outcome", "reason", "+requests", "+records"),
                "No attempt has ended yet.",
            )
        with Tag("div", classes="two"):
            with Tag("section", classes="card", aria_label="Records"):
                records = RowsTable("Records", ("collection", "record"), "No record came of it.")
            with Tag("section", classes="card", aria_label="Files"):
                files = RowsTable("Files", ("file",), "No file came of it.")
        with Tag("section", classes="card", aria_label="Input"):
            Tag("h2", "Input")
            given = Tag("pre", "", "log")

        def show(report: ItemReport) -> None:
            now = report.item
            again_button.visible = now.state is not ItemState.ACTIVE and (
                now.state is not ItemState.WAITING or bool(now.due_at)
            )
            facts.show(_facts(now))
            attempts.show([_attempt(now, index) for index in reversed(range(len(now.history)))])
            records.show(
                [
                    TableRow(key, [collection, Cell(key, href=address("records", collection, key=key))])
                    for collection, keys in report.results.records.items()
                    for key in keys
                ]
            )
            files.show([TableRow(path, [path]) for path in report.results.files])
            given.text = json.dumps(now.input, indent=2, ensure_ascii=False, default=str) if now.input else "(none)"

        await room.broadcaster.watch(("item", job, item), lambda: room.here.jobs.item(job, item), show)


def _facts(item: Item) -> list[tuple[str, str | Cell]]:
    return [
        ("state", state_cell(item.state)),
        ("stage", item.stage.replace("_", " ")),
        ("outcome", item.outcome.replace("_", " ")),
        ("reason", item.reason),
        ("tried again", at(item.due_at) if item.state is ItemState.WAITING else ""),
        ("because", item.why),
        ("site", item.site),
        ("attempts", f"{item.attempts:,}"),
        ("priority", f"{item.priority:,}"),
        ("steps from the beginning", f"{item.depth:,}"),
        ("line of the input", f"{item.line:,}" if item.line else ""),
        ("sums", ", ".join(f"{number:,} {name}" for name, number in item.counts.items())),
        ("added", at(item.created_at)),
        ("changed", at(item.updated_at)),
        ("id", item.id),
    ]


def _attempt(item: Item, index: int) -> TableRow:
    past = item.history[index]
    return TableRow(
        f"{index} {past.attempt}",
        [
            past.attempt,
            at(past.at),
            state_cell(past.state),
            past.outcome.replace("_", " "),
            past.reason,
            past.requests,
            past.records,
        ],
    )
