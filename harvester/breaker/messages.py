"""The texts about a breaker's change: the reason, the evidence, and the consequence for the queued requests."""

from harvester.breaker.states import BreakerChange
from harvester.sites.proxy_spec import Tier

TITLES = {
    "open": "{site} is left alone",
    "half_open": "{site} is tried again",
    "closed": "{site} is asked again",
    "held": "{site} is held",
}


def title(change: BreakerChange) -> str:
    """Returns the change in a few words."""
    return TITLES[change.after].format(site=place(change.site, change.tier))


def place(site: str, tier: str) -> str:
    """Returns what a breaker stands for: a site, or a tier of proxies at a site."""
    if tier == Tier.NONE:
        return f"{site} without a proxy"
    return f"{site} through {tier} proxies" if tier else site


def reason(change: BreakerChange) -> str:
    """Returns one sentence with the reason."""
    if change.by:
        return f"{change.by} wanted it so{': ' + change.said.rstrip('.') if change.said else ''}."
    if change.after == "half_open":
        return "Its time is over; a few requests find out whether it answers."
    if change.after == "closed":
        return f"The probes went well, {_time(change.alone_s)} after it was first left alone."
    if change.before == "half_open":
        return f"A probe failed{_said(change)}."
    return _of_opening(change)


def extrapolation(change: BreakerChange) -> str:
    """Returns a sentence or two with the probable end of the queued requests. Empty if it cannot be estimated."""
    if change.before != "closed" or change.after != "open" or change.by or change.tier:
        return ""
    if change.cause in ("refusals", "failures", "ratio") and not change.tried:
        return ""  # the window has passed since: the worker that judged was stopped in between
    window, left = _time(change.window_s), f"of the {change.left:,} that are queued"
    worst = _most(change.outcomes, change.failed)
    if change.cause in ("refusals", "failures"):
        return (
            f"Of {change.tried:,} tried in the last {window} {change.failed:,} failed{worst}, and so did the last"
            f" {change.row:,} in a row: {left} probably all would fail."
        )
    if change.cause == "ratio":
        fails = round(change.left * change.failed / change.tried, -2 if change.left > 1000 else 0)
        tried = f"Of {change.tried:,} tried in the last {window} {change.failed:,} failed{worst}"
        return f"{tried}; {left} about {fails:,.0f} would fail."
    if change.cause == "layout":
        return f"{left[0].upper()}{left[1:]} probably most would not be understood."
    pages, nothing = change.pages
    if change.cause == "drift":
        return f"Of the last {pages:,} pages {nothing:,} had nothing in them; {left} probably most would be as empty."
    return f"The records of the {change.left:,} requests that are queued would probably lack it too."


def _of_opening(change: BreakerChange) -> str:
    if change.cause == "refusals":
        return f"It refused {change.row:,} requests in a row{_said(change)}."
    if change.cause == "failures":
        return f"{change.row:,} requests in a row failed{_said(change)}."
    if change.cause == "ratio":
        number = f"{change.failed:,} of {change.tried:,}" if change.tried else "Too many"
        return f"{number} requests failed{_said(change)}."
    if change.cause == "layout":
        return f"{change.row:,} pages were not as they should be, and few were{_said(change)}."
    if change.cause == "drift":
        return "Its pages come, and there is far less in them than was usual: it may have changed."
    names = ", ".join(f"{kind}.{field}" for kind, field in change.lost)
    return f"Its records have lost what nearly all had: {names}."


def _most(outcomes: dict[str, int], failed: int) -> str:
    """Returns the most frequent bad outcomes, with the most frequent first."""
    largest = sorted(((n, name) for name, n in outcomes.items() if name not in ("ok", "unchanged")), reverse=True)[:3]
    return f" ({', '.join(f'{n:,} {name}' for n, name in largest)})" if failed and largest else ""


def _said(change: BreakerChange) -> str:
    return f", the last one because of: {change.said.rstrip('.')}" if change.said else ""


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
