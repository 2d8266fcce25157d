"""The effective settings of this process with secrets masked, and the tokens of the controller."""

from nicegui import ui

from harvester.control.pages import tokens
from harvester.control.pages.components import Cell, RowsTable, TableRow, Tag
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext
from harvester.control.services.settings import Setting, Settings
from harvester.control.tokens import Scope


async def view(room: PageContext) -> None:
    settings = Settings(room.here.jobs).all()
    said = "Of this process, as it was started: workers on other machines may have others. Secrets are masked."
    caller = await room.caller(ui.context.client.request.scope)
    with frame(room, "Settings", "Settings", said):
        if caller is None or not caller.token.scope.allows(Scope.ADMIN):
            Tag(
                "p", f"To see them, and to make and revoke tokens, needs a token with the scope {Scope.ADMIN}.", "empty"
            )
            return
        await tokens.section(room, caller.token)
        with Tag("div", classes="line end"):
            search = ui.input("Name or value").props("outlined dense data-search clearable")
        with Tag("section", classes="card", aria_label="Settings"):
            rows = RowsTable("Settings in force", ("setting", "value", "from", "default"), "No setting is like this.")

        def show() -> None:
            wanted = str(search.value or "").lower()
            rows.show([_row(each) for each in settings if wanted in f"{each.name} {each.value}".lower()])

        search.on_value_change(show)
        show()


def _row(setting: Setting) -> TableRow:
    is_default = setting.source == "default"
    value = Cell(setting.value or "(none)", tone="faint" if is_default else "busy")
    return TableRow(
        setting.name, [setting.name, value, "" if is_default else setting.source, setting.default or "(none)"]
    )
