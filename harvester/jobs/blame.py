"""Which host kept a run from its work, and what a person may do about it: what a run says that leaves items behind."""

from typing import Any, NamedTuple

from scrapy.statscollectors import StatsCollector

from harvester.outcomes import Outcome

REFUSALS = (Outcome.BLOCKED, Outcome.CHALLENGE, Outcome.RATE_LIMITED, Outcome.AUTH_REQUIRED, Outcome.POLICY_DENIED)
ABSENCES = (Outcome.TIMEOUT, Outcome.DNS, Outcome.NETWORK, Outcome.MAINTENANCE, Outcome.SERVER_ERROR)
_ERRORS = "harvester/errors/"


class Blame(NamedTuple):
    """The host that failed most often in a run."""

    reason: str
    """The finish reason: blocked, unreachable or unusable."""
    said: str
    """For the person at the terminal."""


def blame(stats: StatsCollector, address: str) -> Blame | None:
    """None when no host failed. `address`: by which argument the address of the spider's site is given, if by any."""
    errors: dict[str, Any] = {name: number for name, number in stats.get_stats().items() if name.startswith(_ERRORS)}
    if not errors:
        return None
    outcome, _, host = max(errors, key=lambda name: errors[name]).removeprefix(_ERRORS).partition("/")
    reason = stats.get_value(f"harvester/said/{outcome}/{host}", outcome)
    answered = bool(stats.get_value("harvester/pages", 0))
    is_right = f"Is its address right ({address})" if address else "Is its address right"
    if outcome in REFUSALS:
        what = f"refuses to answer ({reason}). Wait before you continue"
        return Blame("blocked", f"{host} {what}, and ask for less (HARVESTER_REQUESTS_PER_SECOND).")
    if outcome == Outcome.PROXY:
        return Blame("unreachable", f"No proxy leads to {host} ({reason}). Look at your proxies, then continue.")
    if outcome in ABSENCES:
        if answered:
            return Blame("unreachable", f"{host} no longer answers ({reason}). Is this machine online?")
        return Blame("unreachable", f"{host} cannot be reached ({reason}). {is_right}, and this machine online?")
    return Blame("unusable", f"{host} does not answer as it should ({reason}). {is_right}?")
