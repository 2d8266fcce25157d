"""The decision after a worker has ended. Pure functions; docs/running.md lists the exit codes."""

from collections.abc import Iterable
from enum import StrEnum

from harvester.exceptions import FAULT, INTERRUPTED, LEFT, TERMINATED, UNMET, FrontierLost, UsageError
from harvester.stores.servers.binaries import describe_exit

WORDS = {
    0: "its work is done, or it reached a limit",
    FAULT: "a fault of this program",
    2: "arguments, seeds or settings cannot be used",
    3: "MongoDB or Redis cannot be had",
    4: "records, pictures or state cannot be written",
    5: "the login was refused, or cannot be kept",
    UNMET: "its work is done, and its monitors failed",
    LEFT: "the service refuses, cannot be reached, or is none",
    9: "Redis forgot what was to be fetched",
    INTERRUPTED: "it was stopped",
}

USAGE = UsageError.exit_code
_FROM_GOOD_TO_BAD = (0, INTERRUPTED, UNMET, LEFT, 3, 4, 9, 5, USAGE, FAULT)


class Next(StrEnum):
    """The supervisor's reaction when a worker ended without a request to stop."""

    DONE = "done"
    """No reaction: the work is done, or a restart would be wrong."""
    AGAIN = "again"
    """Restarts the worker."""
    STOP = "stop"
    """Stops the other workers too, because they would end in the same way."""


def next_step(code: int, drained: bool) -> Next:
    """Returns the reaction to an exit code; a negative code is a signal, as in subprocess.

    `drained`: the worker was drained because it used too much memory.
    """
    if code in (0, UNMET, LEFT, FrontierLost.exit_code) or (code == INTERRUPTED and not drained):
        return Next.DONE
    return Next.STOP if code in (2, 5) else Next.AGAIN


def as_stopped(code: int) -> int:
    """Returns a worker's exit code for its supervisor, which treats all stop signals alike."""
    return INTERRUPTED if code == TERMINATED else code


def describe(code: int) -> str:
    """Returns an explanation of the exit code for people."""
    return f"exit code {code}: {WORDS[code]}" if code in WORDS else describe_exit(code)


def worst(codes: Iterable[int]) -> int:
    """Returns the worst code, as the supervisor's own exit code. Signals and unknown codes count as faults."""
    known = (code if code in _FROM_GOOD_TO_BAD else FAULT for code in codes)
    return max(known, key=_FROM_GOOD_TO_BAD.index, default=0)


def backoff_s(deaths: int, first_s: float, most_s: float) -> float:
    """Returns the seconds to wait after the n-th death in a row: doubled each time, up to a maximum."""
    return float(min(most_s, first_s * 2 ** min(deaths - 1, 30)))
