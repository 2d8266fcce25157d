"""Sites and their breakers: their state with reason and end; opening, holding and closing them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import cast

from harvester.control.pages.components import (
    Cell,
    Field,
    InputForm,
    RowAction,
    RowsTable,
    TableRow,
    Tag,
    at,
    done,
    filled,
    state_cell,
)
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext, Say, complain
from harvester.control.services.sites import LONGEST_S, SiteChange, SiteChanged, Sites, SitesPage, SiteStatus, Wanted
from harvester.exceptions import UsageError
from harvester.jobs.ledger import now
from harvester.recheck.durations import read_duration

MOST = 100
"""Maximum number of sites to show."""
EVERY_S = 2.0
COLUMNS = ("site", "spider", "breaker", "+ready", "+parked", "since", "until", "why")
EMPTY = "None has requests that wait, or is left alone. Sites appear here while workers fetch from them."
SAID: Mapping[str, str] = {
    "open": "Nothing is asked of it until then; after that a few probes find out whether it answers. "
    "Its requests are parked, and none is lost.",
    "held": "Nothing is asked of it until somebody closes the breaker. Its requests are parked, and none is lost.",
    "closed": "It is asked again, now.",
}
ACTIONS = RowAction("open", "Open"), RowAction("held", "Hold"), RowAction("closed", "Close")
UNTIL = Field("until", "Until when", hint="from now, as 2h or 1d; or a time of UTC, as 2026-01-31 07:00")
WHY = Field("why", "Why, for others (may stay empty)")


async def view(room: PageContext) -> None:
    with frame(room, "Sites", "Sites", "A breaker that is open or held leaves its site alone; closed, it is asked."):
        seen: dict[str, SiteStatus] = {}

        async def act(row: str, action: str) -> None:
            await _change(room, seen[row], next(each for each in ACTIONS if each.name == action))

        with Tag("section", classes="card", aria_label="Sites"):
            rows = RowsTable("Those that are left alone first", COLUMNS, EMPTY, act)

        def show(page: SitesPage) -> None:
            seen.clear()
            seen.update({_key(each): each for each in page.sites})
            more = f"The first {MOST}: there are more" if page.more else ""
            rows.show([_row(each) for each in page.sites], more)

        await room.broadcaster.watch("sites", lambda: Sites(room.here.jobs).list(most=MOST), show, EVERY_S)


async def _change(room: PageContext, site: SiteStatus, action: RowAction) -> None:
    async def do(form: InputForm) -> SiteChanged | None:
        seconds = seconds_until(form["until"], now()) if action.name == "open" else None
        wanted = SiteChange(cast(Wanted, action.name), seconds, form["why"], site.tier)
        return await _do(room, site, wanted, form.complain)

    question = f"{action.label} the breaker of {_place(site)}?"
    said = f"{SAID[action.name]} {site.parked:,} requests are parked now, and {site.ready:,} are ready."
    fields = [UNTIL, WHY] if action.name == "open" else [WHY]
    _tell(room, site, await filled(question, said, fields, action.label, do))


async def _do(room: PageContext, site: SiteStatus, wanted: SiteChange, say: Say = complain) -> SiteChanged | None:
    who = await room.who()
    return await room.act(
        f"breaker_{wanted.state}",
        f"/sites/{site.spider}/{_place(site)}",
        lambda: Sites(room.here.jobs).change(site.spider, site.site, wanted, who),
        say=say,
    )


def _tell(room: PageContext, site: SiteStatus, changed: SiteChanged | None) -> None:
    if changed:
        done(changed.said, partial(_undo, room, site, changed.undo) if changed.undo else None)


async def _undo(room: PageContext, site: SiteStatus, wanted: SiteChange) -> None:
    _tell(room, site, await _do(room, site, wanted))


def seconds_until(text: str, now: datetime) -> float:
    """Returns the seconds until a UTC time, or the seconds of a duration. Raises UsageError."""
    if not text:
        raise UsageError("Say until when.")
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return read_duration(text)
    seconds = ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds()
    if not 1 <= seconds <= LONGEST_S:
        raise UsageError(f"{text} is not within the coming year: give a time to come.")
    return seconds


def _row(site: SiteStatus) -> TableRow:
    counts = ", ".join(f"{outcome.replace('_', ' ')} {times:,}" for outcome, times in site.outcomes.items())
    why = ": ".join(filter(None, (site.cause, site.said))) + (f" ({counts})" if counts else "")
    tone = state_cell("open_breaker" if site.state == "open" else site.state, site.state.replace("_", " "))
    forever = "somebody closes it" if site.state == "held" else ""
    cells: list[Cell | str | int] = [_place(site), site.spider, tone, site.ready, site.parked]
    cells += [at(site.since), at(site.until) or forever, why]
    actions = [each for each in ACTIONS if each.name == "open" or each.name != site.state]
    return TableRow(_key(site), cells, actions, _place(site))


def _place(site: SiteStatus) -> str:
    return f"{site.site} ({site.tier})" if site.tier else site.site


def _key(site: SiteStatus) -> str:
    return "\0".join((site.spider, site.site, site.tier))
