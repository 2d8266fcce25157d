"""Tokens on the settings page: creating a token, which is shown once, and revoking it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from harvester.control.pages.components import (
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
    shown_once,
)
from harvester.control.pages.page_context import PageContext
from harvester.control.tokens import ApiToken, Scope
from harvester.exceptions import UsageError

EVERY_S = 5.0
MOST_LINES = 1000
"""Number of the latest audit lines to search for the last action of a token."""
MOST_DAYS = 3650
COLUMNS = ("name", "scope", "made", "until", "last action", "id")
SCOPE_HINT = "read: looking; operate: jobs, sites, schedules, feeds; admin: settings and tokens as well"
REVOKE = RowAction("revoke", "Revoke")


@dataclass(frozen=True, slots=True)
class _Seen:
    tokens: list[ApiToken]
    acted: Mapping[str, datetime]
    """Id -> time of the last action other than reading, if known."""


async def section(room: PageContext, own: ApiToken) -> None:
    """The section for administrators. `own`: the token that opened the page."""
    seen: dict[str, ApiToken] = {}

    async def revoke(row: str, _: str) -> None:
        await _revoke(room, seen[row], own)

    with Tag("section", classes="card", aria_label="Tokens"):
        rows = RowsTable("Tokens, the oldest first", COLUMNS, "There is none.", revoke)
    with Tag("details", classes="card"):
        Tag("summary", "Make a token")
        fields = [
            Field("name", "Who gets it", hint="each person another, so that the audit tells who did what"),
            Field("scope", "What it is good for", Scope.READ, SCOPE_HINT, [*Scope]),
            Field("days", "For how many days", hint="empty: until it is revoked"),
        ]

        async def make(form: InputForm) -> None:
            await _make(room, form)

        form = InputForm(fields, make)
        with Tag("div", classes="line"):
            button("Make it", form.submit, "main")

    def show(now: _Seen) -> None:
        seen.clear()
        seen.update({each.id: each for each in now.tokens})
        rows.show([_row(each, now.acted.get(each.id)) for each in now.tokens])

    async def read() -> _Seen:
        lines = await room.here.audit.latest(MOST_LINES)
        return _Seen(await room.here.tokens.list(), {each.token: each.at for each in reversed(lines)})

    await room.broadcaster.watch("tokens", read, show, EVERY_S)


async def _make(room: PageContext, form: InputForm) -> None:
    name, scope, lasts = form["name"], Scope(form["scope"]), read_days(form["days"])

    async def do() -> tuple[ApiToken, str]:
        return await room.here.tokens.add(name, scope, lasts)

    made = await room.act("add_token", address("tokens", name), do, Scope.ADMIN, form.complain)
    if made:
        said = f"Copy it now, for {name}: it is not kept here, and cannot be shown again."
        await shown_once(f"A token with the scope {scope}", said, made[1], "I have copied it")


async def _revoke(room: PageContext, token: ApiToken, own: ApiToken) -> None:
    said = "From its next request on it is refused, and pages that are open with it are closed. This cannot be undone."
    if token.id == own.id:
        said += " It is the one with which you are here: you will have to log in with another."
    if await confirmed(f"Revoke the token of {token.name}?", said, "Revoke"):
        target = address("tokens", token.id)
        if await room.act("revoke_token", target, lambda: room.here.tokens.revoke(token.id), Scope.ADMIN):
            done(f"The token of {token.name} is revoked.")


def read_days(text: str) -> timedelta | None:
    """Reads a number of days; None: no limit. Raises UsageError."""
    if not text:
        return None
    if not text.isdecimal() or len(text) > 4 or not 0 < int(text) <= MOST_DAYS:
        raise UsageError(f"For how many days: give a whole number from 1 to {MOST_DAYS:,}, or nothing.")
    return timedelta(days=int(text))


def _row(token: ApiToken, acted: datetime | None) -> TableRow:
    until = at(token.expires_at) or "it is revoked"
    return TableRow(
        token.id, [token.name, token.scope, at(token.created_at), until, at(acted), token.id], [REVOKE], token.name
    )
