"""Sites as the frontiers know them: which are left alone, why and until when; hold, open and close their breakers."""

from functools import partial

from harvester.control.pages.frame import frame
from harvester.control.pages.parts import Action, Cell, Row, Rows, Tag, asked, at, done, state_cell
from harvester.control.pages.room import Room
from harvester.control.services.sites import SiteChange, Sites, SitesPage, SiteStatus

MOST = 100
"""Sites that are shown."""
EVERY_S = 2.0
COLUMNS = ("site", "spider", "breaker", "+ready", "+parked", "since", "until", "why")
EMPTY = "No site has been asked yet: sites appear here when workers fetch from them."
SAID = {
    "held": "Nothing is asked of it until somebody closes the breaker. Its requests are parked, and none is lost.",
    "closed": "It is asked again, now.",
}
HOLD, CLOSE = Action("held", "Hold"), Action("closed", "Close")


async def view(room: Room) -> None:
    with frame(room, "Sites", "Sites", "A breaker that is open or held leaves its site alone; closed, it is asked."):
        seen: dict[str, SiteStatus] = {}

        async def act(row: str, action: str) -> None:
            await _change(room, seen[row], action)

        with Tag("section", classes="card", aria_label="Sites"):
            rows = Rows("Those that are left alone first", COLUMNS, EMPTY, act)

        def show(page: SitesPage) -> None:
            seen.clear()
            seen.update({_key(each): each for each in page.sites})
            more = f"The first {MOST}: there are more" if page.more else ""
            rows.show([_row(each) for each in page.sites], more)

        await room.broadcaster.watch("sites", lambda: Sites(room.here.jobs).list(most=MOST), show, EVERY_S)


async def _change(room: Room, site: SiteStatus, state: str) -> None:
    verb = "Hold" if state == "held" else "Close"
    waiting = f"{site.parked:,} requests are parked now, and {site.ready:,} are ready."
    reason = await asked(
        f"{verb} the breaker of {_place(site)}?", f"{SAID[state]} {waiting}", "Why, for others (may stay empty)", verb
    )
    if reason is not None:
        await _do(room, site, SiteChange("held" if state == "held" else "closed", reason=reason, tier=site.tier))


async def _do(room: Room, site: SiteStatus, wanted: SiteChange) -> None:
    who = await room.who()
    changed = await room.act(
        f"breaker_{wanted.state}",
        f"/sites/{site.spider}/{_place(site)}",
        lambda: Sites(room.here.jobs).change(site.spider, site.site, wanted, who),
    )
    if changed:
        done(changed.said, partial(_do, room, site, changed.undo) if changed.undo else None)


def _row(site: SiteStatus) -> Row:
    counts = ", ".join(f"{outcome.replace('_', ' ')} {times:,}" for outcome, times in site.outcomes.items())
    why = ": ".join(filter(None, (site.cause, site.said))) + (f" ({counts})" if counts else "")
    tone = state_cell("open_breaker" if site.state == "open" else site.state, site.state.replace("_", " "))
    forever = "somebody closes it" if site.state == "held" else ""
    cells: list[Cell | str | int] = [_place(site), site.spider, tone, site.ready, site.parked]
    cells += [at(site.since), at(site.until) or forever, why]
    actions = [CLOSE] if site.state == "held" else [HOLD] if site.state == "closed" else [HOLD, CLOSE]
    return Row(_key(site), cells, actions, _place(site))


def _place(site: SiteStatus) -> str:
    return f"{site.site} ({site.tier})" if site.tier else site.site


def _key(site: SiteStatus) -> str:
    return "\0".join((site.spider, site.site, site.tier))
