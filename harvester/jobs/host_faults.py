"""Finds the host that failed most in a run that left items behind, and advises the user what to do about it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from scrapy.statscollectors import StatsCollector

from harvester.formatting import plural
from harvester.jobs.documents import Counted, ItemState
from harvester.outcomes import Outcome, get_policy

MOST_REFUSED = 0.5
"""Share of the answered items of a kind. With more refusals a run counts as refused, even if other addresses answer."""
_ERRORS = "harvester/errors/"


class Blame(NamedTuple):
    """The host that failed most often in a run."""

    reason: str
    """The finish reason: blocked, unreachable or unusable."""
    said: str
    """The message for the user at the terminal."""


def is_refusal(outcome: str) -> bool:
    """Returns True if a host wants fewer requests from us, or none."""
    return get_policy(outcome).refusal or outcome == Outcome.RATE_LIMITED


def blame(stats: StatsCollector, address: str) -> Blame | None:
    """Returns the host that failed most often, or None. `address`: the argument with the address of the spider's site,
    if it has one."""
    errors = _errors(stats)
    if not errors:
        return None
    outcome, host, reason = _most_frequent(stats, errors)
    answered = bool(stats.get_value("harvester/pages", 0))
    is_right = f"Is its address right ({address})" if address else "Is its address right"
    if is_refusal(outcome):
        what = f"refuses to answer ({reason}). Wait before you continue"
        return Blame("blocked", f"{host} {what}, and ask for less (HARVESTER_REQUESTS_PER_SECOND).")
    if outcome == Outcome.PROXY:
        return Blame("unreachable", f"No proxy leads to {host} ({reason}). Look at your proxies, then continue.")
    if get_policy(outcome).unavailable:
        if answered:
            return Blame("unreachable", f"{host} no longer answers ({reason}). Is this machine online?")
        return Blame("unreachable", f"{host} cannot be reached ({reason}). {is_right}, and this machine online?")
    return Blame("unusable", f"{host} does not answer as it should ({reason}). {is_right}?")


def refused(stats: StatsCollector, counts: Iterable[Counted]) -> Blame | None:
    """Returns the host to blame if most items of a kind were refused, even if others were answered. Else None."""
    answered: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    for row in counts:
        if row.outcome and row.state is not ItemState.SKIPPED:
            answered[row.kind] += row.items
            refusals[row.kind] += row.items if is_refusal(row.outcome) and row.state is not ItemState.DONE else 0
    kind = max(refusals, key=lambda each: refusals[each] / answered[each], default="")
    if not kind or refusals[kind] <= answered[kind] * MOST_REFUSED:
        return None
    errors = {name: number for name, number in _errors(stats).items() if is_refusal(name.split("/")[2])}
    _, host, reason = _most_frequent(stats, errors) if errors else ("", "The site", "in an earlier run")
    many = f"{refusals[kind]:,} of {answered[kind]:,} {plural(kind)}"
    advice = "Wait before you continue, and ask for less (HARVESTER_REQUESTS_PER_SECOND)."
    return Blame("blocked", f"{host} refused {many} ({reason}). {advice}")


def _errors(stats: StatsCollector) -> dict[str, Any]:
    return {name: number for name, number in stats.get_stats().items() if name.startswith(_ERRORS)}


def _most_frequent(stats: StatsCollector, errors: dict[str, Any]) -> tuple[str, str, str]:
    """Returns the outcome, the host, and the last message of the host."""
    outcome, _, host = max(errors, key=lambda name: errors[name]).removeprefix(_ERRORS).partition("/")
    return outcome, host, str(stats.get_value(f"harvester/said/{outcome}/{host}", outcome))
