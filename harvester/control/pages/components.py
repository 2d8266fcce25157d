"""The building blocks of views: tags, tables, bars, facts and confirmations.

All text goes to the browser as text: no component accepts HTML.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from harvester.exceptions import UsageError
from harvester.masking import mask

T = TypeVar("T")

MOST_TEXT = 300
"""Maximum number of characters of a text in a table."""
MOST_TYPED = 10_000
"""Maximum number of characters of a field."""
_option = re.compile(r"(?<!\S)--([a-z])").sub
"""Replaces the options of a command, which are fields on a page."""

TONES: Mapping[str, str] = {
    **dict.fromkeys(("done", "finished", "ok", "passed", "closed", "up", "working"), "good"),
    **dict.fromkeys(("failed", "cancelled", "down", "error", "died", "held", "open_breaker"), "bad"),
    **dict.fromkeys(("paused", "half_open", "silent"), "warn"),
    **dict.fromkeys(("active", "running"), "busy"),
    **dict.fromkeys(("waiting", "idle"), "idle"),
    "skipped": "skip-tone",
}
"""State, as MongoDB or Redis names it -> class of page.css. Other states have no colour."""

GREY, BLUE = "#7d8998", "#3b82c4"
"""Colours of charts: visible on a light and on a dark background."""
LINES = {"lineStyle": {"color": GREY, "opacity": 0.25}}


class Tag(TextElement):
    """An HTML element with text."""

    def __init__(self, tag: str, text: str = "", classes: str = "", **attributes: str | bool) -> None:
        """In attribute names `_` stands for `-`; a trailing `_` is dropped, as in `for_`."""
        super().__init__(tag=tag, text=text)
        for name, value in attributes.items():
            self._props[name.rstrip("_").replace("_", "-")] = value
        if classes:
            self.classes(classes)

    def set(self, name: str, value: str | bool) -> None:
        """Sets an attribute."""
        if self._props.get(name) != value:
            self._props[name] = value
            self.update()


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table."""

    text: str
    href: str = ""
    tone: str = ""
    """A class of page.css."""
    picture: str = ""
    """Path of a picture on this controller."""


@dataclass(frozen=True, slots=True)
class RowAction:
    """A button of a row."""

    name: str
    label: str
    key: str = ""
    """The key on the keyboard."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table."""

    key: str
    cells: Sequence[Cell | str | int]
    actions: Sequence[RowAction] = ()
    name: str = ""
    """The name for screen readers; empty: the key."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form: free text, or a choice of options."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    options: Sequence[str] = ()
    lines: bool = False
    """True if the field takes several lines."""


class InputForm:
    """Fields with an error message below them. After an error the input stays."""

    def __init__(self, fields: Sequence[Field], do: Callable[["InputForm"], Awaitable[None]]) -> None:
        """`do`: handles the input; the message of a UsageError is shown."""
        self._do = do
        self._is_busy = False
        with Tag("div", classes="two"):
            self._fields = {field.name: entry(field) for field in fields}
        for field in fields:
            if not field.options and not field.lines:  # Enter has another meaning there
                self._fields[field.name].on("keydown.enter", self.submit)
        self._wrong = Tag("p", "", "bad", role="alert")

    def __getitem__(self, name: str) -> str:
        """Returns the content of a field."""
        return str(self._fields[name].value or "").strip()

    async def submit(self) -> None:
        """Handles the input. A second press meanwhile does nothing."""
        if self._is_busy:
            return
        self._is_busy = True
        self.complain("")
        try:
            await self._do(self)
        except UsageError as error:
            self.complain(str(error))
        finally:
            self._is_busy = False

    def focus(self) -> None:
        """Gives the first field the focus."""
        next(iter(self._fields.values())).props("autofocus")

    def complain(self, said: str) -> None:
        self._wrong.text = _option(r"\1", mask(said))


class RowsTable(Element, component="static/rows.js"):
    """A table with rows and buttons."""

    def __init__(
        self, caption: str, columns: Sequence[str], empty: str, act: Callable[[str, str], Awaitable[None]] | None = None
    ) -> None:
        """A `+` before a column's name marks numbers. `empty`: the text of an empty table, with a command to type.

        `act` receives a row's key and an action's name.
        """
        super().__init__()
        self._props["caption"] = self._caption = caption
        self._props["columns"] = [{"label": name.lstrip("+"), "number": name.startswith("+")} for name in columns]
        self._props["empty"] = empty
        self._props["rows"] = []
        if act:
            self.on("act", lambda event: act(str(event.args["row"]), str(event.args["action"])))

    def show(self, rows: Sequence[TableRow], caption: str = "") -> None:
        """Sends the rows if they have changed. `caption`: replaces the caption for these rows."""
        new = [_row(row) for row in rows]
        if new != self._props["rows"] or (caption or self._caption) != self._props["caption"]:
            self._props["rows"] = new
            self._props["caption"] = caption or self._caption
            self.update()


class Bar(Element, component="static/bar.js"):
    """A bar with the number of items in each state."""

    def __init__(self) -> None:
        super().__init__()
        self._props["parts"] = []

    def show(self, parts: Sequence[tuple[str, int, str]]) -> None:
        """Shows (state, number, address) triples; the address of the matching page may be empty."""
        new = [
            {"name": name, "items": items, "tone": TONES.get(name, "idle"), "href": href} for name, items, href in parts
        ]
        if new != self._props["parts"]:
            self._props["parts"] = new
            self.update()


class Facts(Element):
    """A list of names and values."""

    def __init__(self) -> None:
        super().__init__("dl")
        self.classes("facts")
        self._shown: list[tuple[str, str | Cell]] = []

    def show(self, facts: Sequence[tuple[str, str | Cell]]) -> None:
        """Shows the facts; leaves out empty values."""
        new = [(name, value) for name, value in facts if (value.text if isinstance(value, Cell) else value)]
        if new == self._shown:
            return
        self._shown = new
        self.clear()
        with self:
            for name, value in new:
                Tag("dt", name)
                cell = value if isinstance(value, Cell) else Cell(value)
                with Tag("dd"):
                    if cell.href:
                        Tag("a", mask(cell.text), href=cell.href)
                    else:
                        Tag("span", mask(cell.text), cell.tone)


class Tiles(Element):
    """Large numbers with names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("div")
        self.classes("tiles")
        self._numbers: dict[str, Tag] = {}
        with self:
            for name in names:
                with Tag("div", classes="tile"):
                    self._numbers[name] = Tag("b", "-")
                    Tag("span", name)

    def show(self, numbers: Mapping[str, int | str]) -> None:
        for name, number in numbers.items():
            self._numbers[name].text = f"{number:,}" if isinstance(number, int) else number


def _row(row: TableRow) -> dict[str, Any]:
    cells = [
        each if isinstance(each, Cell) else Cell(f"{each:,}" if isinstance(each, int) else each) for each in row.cells
    ]
    return {
        "key": row.key,
        "name": row.name or row.key,
        "cells": [
            {"text": short(cell.text), "href": cell.href, "tone": cell.tone, "picture": cell.picture} for cell in cells
        ],
        "actions": [{"name": each.name, "label": each.label, "key": each.key} for each in row.actions],
    }


def button(
    label: str, act: Callable[[], Awaitable[None]] | Callable[[], None], classes: str = "", **attributes: str
) -> Tag:
    """Returns a button that calls `act` when it is pressed."""
    made = Tag("button", label, f"act {classes}".strip(), type="button", **attributes)
    made.on("click", lambda _: act())
    return made


async def confirmed(question: str, said: str, yes: str) -> bool:
    """Asks for confirmation. `said`: the effect of the action; `yes`: the label of the button that confirms."""
    with _dialog(question) as dialog, Tag("div", classes="box"):
        Tag("h2", question)
        Tag("p", mask(said))
        with Tag("div", classes="line"):
            button("Leave it", lambda: dialog.submit(False))
            button(yes, lambda: dialog.submit(True), "main", autofocus="autofocus")
    return bool(await _answer(dialog))


async def asked(question: str, said: str, label: str, yes: str, value: str = "") -> str | None:
    """Asks for a line of text. None: cancelled."""
    with _dialog(question) as dialog, Tag("div", classes="box"):
        Tag("h2", question)
        Tag("p", mask(said))
        line = ui.input(label, value=value).props("outlined dense autofocus maxlength=500").classes("w-full")
        line.on("keydown.enter", lambda: dialog.submit(str(line.value or "")))
        with Tag("div", classes="line").style("margin-top: 14px"):
            button("Leave it", lambda: dialog.submit(None))
            button(yes, lambda: dialog.submit(str(line.value or "")), "main")
    answer = await _answer(dialog)
    return None if answer is None else str(answer)


async def filled(
    question: str, said: str, fields: Sequence[Field], yes: str, do: Callable[[InputForm], Awaitable[T | None]]
) -> T | None:
    """Shows a form until `do` succeeds, and returns the result of `do`. None: cancelled.

    `do` returns None after it has shown an error in the form, or raises UsageError.
    """

    async def submit(form: InputForm) -> None:
        done = await do(form)
        if done is not None:
            dialog.submit(done)

    with _dialog(question) as dialog, Tag("div", classes="box"):
        Tag("h2", question)
        Tag("p", mask(said))
        form = InputForm(fields, submit)
        form.focus()
        with Tag("div", classes="line"):
            button("Leave it", lambda: dialog.submit(None))
            button(yes, form.submit, "main")
    answer: T | None = await _answer(dialog)
    return answer


async def shown_once(title: str, said: str, secret: str, yes: str) -> None:
    """Shows a secret until the user confirms having copied it."""
    with _dialog(title).props("persistent") as dialog, Tag("div", classes="box"):
        Tag("h2", title)
        Tag("p", mask(said))
        Tag("pre", secret, "log", tabindex="0")
        with Tag("div", classes="line").style("margin-top: 14px"):
            button(yes, lambda: dialog.submit(True), "main")
    await _answer(dialog)


def entry(field: Field) -> Any:
    """Returns the input element of a field."""
    if field.options:
        made: Any = ui.select([*field.options], label=field.label, value=field.value).props("options-dense")
    else:
        kind = ui.textarea if field.lines else ui.input
        made = kind(field.label, value=field.value).props(f"maxlength={MOST_TYPED}")
    made.props(add="outlined dense bottom-slots").classes("w-full")
    made._props["hint"] = field.hint
    return made


def _dialog(name: str) -> ui.dialog:
    """`name`: the name for screen readers."""
    dialog = ui.dialog()
    dialog._props["aria-label"] = name
    return dialog


async def _answer(dialog: ui.dialog) -> Any:
    """Waits for the answer. None: the dialog or its page was closed."""
    answer = await dialog
    if not dialog.is_deleted:
        dialog.delete()
    return answer


def done(said: str, undo: Callable[[], Awaitable[None]] | None = None) -> None:
    """Shows the result of an action, with an undo button where possible."""
    layout = ui.context.client.layout
    with layout:
        line = Tag("div", classes="undo", role="status")
    with line:
        Tag("span", mask(said))

        async def take_back() -> None:
            line.delete()
            if undo:
                await undo()

        if undo:
            button_ = Tag("button", "Undo", type="button")
            button_.on("click", lambda _: take_back())
        close = Tag("button", "Close", type="button")
        close.on("click", lambda _: line.delete())
    for before in [each for each in layout.descendants() if "undo" in each.classes and each is not line]:
        before.delete()


def state_cell(state: str, said: str = "") -> Cell:
    """Returns a cell in the colour of the state."""
    return Cell(said or state.replace("_", " "), tone=TONES.get(state, ""))


def short(text: str) -> str:
    """Returns the text on one line, masked and cut to MOST_TEXT characters."""
    line = " ".join(mask(text).split())
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 1]}…"


def address(*parts: str, **query: str) -> str:
    """Returns the address of a page: parts are quoted, empty values are left out."""
    asked = {name: value for name, value in query.items() if value}
    return "/" + "/".join(quote(part, safe="") for part in parts) + (f"?{urlencode(asked)}" if asked else "")


def at(time: datetime | None) -> str:
    """Formats a time for people; today's times without the date."""
    if time is None:
        return ""
    utc = time.astimezone(UTC)
    is_today = utc.date() == datetime.now(UTC).date()
    return f"{utc:%H:%M:%S} UTC" if is_today else f"{utc:%Y-%m-%d %H:%M} UTC"
