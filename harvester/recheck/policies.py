"""Policies by the text that people write."""

from harvester.exceptions import UsageError
from harvester.recheck.durations import read_duration
from harvester.recheck.every import Every
from harvester.recheck.policy import Policy
from harvester.validation import did_you_mean


def read_policy(text: str) -> Policy:
    """The policy that `str` gives back. Raises UsageError with what to write instead."""
    name, _, rest = text.strip().partition(" ")
    if not (read := _READERS.get(name.lower())):
        raise UsageError(f"{text!r} is no policy of re-checks{did_you_mean(name, _READERS)} Write for example every 1h")
    return read(rest.strip())


def _every(rest: str) -> Every:
    return Every(read_duration(rest))


_READERS = {"every": _every}
