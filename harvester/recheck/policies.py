"""Reads policies from the text that people write and that a job's document stores."""

import re
from collections.abc import Callable

from msgspec.structs import replace

from harvester.exceptions import UsageError
from harvester.recheck.adaptive import Adaptive
from harvester.recheck.budget import Budget
from harvester.recheck.cron import Cron
from harvester.recheck.durations import read_duration
from harvester.recheck.every import Every
from harvester.recheck.policy import VisitPolicy
from harvester.validation import did_you_mean

_NUMBER = r"([0-9]{1,6}(?:\.[0-9]{1,6})?)"
_adaptive = re.compile(rf"(?:{_NUMBER} to {_NUMBER} a day(?: |$))?(?:times {_NUMBER})?").fullmatch
_budget = re.compile(rf"([0-9]{{1,8}}) a day(?: worth {_NUMBER})?(?: (\S+) to (\S+) apart)?").fullmatch
_LONGEST_TEXT = 200


def read_policy(text: str) -> VisitPolicy:
    """Returns the policy with this text as its `str`. Raises UsageError that shows valid examples."""
    words = text[: _LONGEST_TEXT + 1].split()
    name = words[0].lower() if words else ""
    if len(text) > _LONGEST_TEXT or name not in _READERS:
        examples = ", ".join(f'"{example}"' for _, example in _READERS.values())
        shown = repr(text[:40]) + ("..." if len(text) > 40 else "")
        raise UsageError(
            f"{shown} is no policy of re-checks{did_you_mean(name, _READERS) or '.'} Write for example {examples}"
        )
    read, example = _READERS[name]
    if (policy := read(" ".join(words[1:]))) is None:
        raise UsageError(f'{text!r} cannot be read; write for example "{example}"')
    return policy


def _read_every(rest: str) -> VisitPolicy:
    return Every(read_duration(rest))


def _read_cron(rest: str) -> VisitPolicy:
    expression, _, zone = rest.partition(" in ")
    return Cron(expression, zone or "UTC")


def _read_adaptive(rest: str) -> VisitPolicy | None:
    if not (found := _adaptive(rest)):
        return None
    given = zip(("least", "most", "multiplier"), found.groups(), strict=True)
    return Adaptive(**{name: float(number) for name, number in given if number})


def _read_budget(rest: str) -> VisitPolicy | None:
    if not (found := _budget(rest)):
        return None
    policy = Budget(int(found[1]), float(found[2] or 1))
    return (
        replace(policy, shortest_s=read_duration(found[3]), longest_s=read_duration(found[4])) if found[3] else policy
    )


_READERS: dict[str, tuple[Callable[[str], VisitPolicy | None], str]] = {
    "every": (_read_every, "every 1h"),
    "cron": (_read_cron, "cron 0 7 * * mon-fri in Europe/Berlin"),
    "adaptive": (_read_adaptive, "adaptive 0.07 to 1.75 a day times 2"),
    "budget": (_read_budget, "budget 400 a day worth 2 15m to 3d apart"),
}
