"""Tells two runs of a spider apart."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.projects.run import Ran

_digits = re.compile(r"\d+")
FAILURE_TOLD = "failure told"
"""A run that gave nothing, or in which something failed, ends with 0 under plain Scrapy only."""
_FAILURES = ("2", "6", "7")


def differences(plain: Ran, ours: Ran, again: Ran | None = None) -> dict[str, str]:
    """What differs (items, files, requests, exit code) -> how. `again`: plain Scrapy's second run.

    Fields, files and addresses in which its two runs differ are left out: they hold the time, or are drawn by lot.
    """
    found: dict[str, str] = {}
    odd = _odd_fields(plain.items, again.items) if again else set()
    theirs, mine = _texts(plain.items, odd), _texts(ours.items, odd)
    if theirs != mine:
        found["items"] = (
            f"{len(ours.items)} in place of {len(plain.items)}; missing {_first(theirs - mine)};"
            f" more {_first(mine - theirs)}"
        )
    different = len(_texts(ours.items, set()))
    if ours.stored is not None and ours.has_feed and ours.stored != different:
        found["stored"] = f"{ours.stored} in MongoDB, of {different} different items"
    if again and again.files.keys() != plain.files.keys():
        if len(ours.files) not in (len(plain.files), len(again.files)):
            found["files"] = f"{len(ours.files)} in place of {len(plain.files)}"
    else:
        odd_files = {name for name in plain.files if again and again.files[name] != plain.files[name]}
        left, right = _without(plain.files, odd_files), _without(ours.files, odd_files)
        if left != right:
            found["files"] = _first(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
    odd_paths = _odd_paths(plain, again) if again else set()
    known, sent = _sent(plain, odd_paths), _sent(ours, odd_paths)
    if more := sent - known:
        found["more requests"] = f"{more.total()}: {_first(more)}"
    if less := known - sent:
        found["fewer requests"] = f"{less.total()} of {known.total()}: {_first(less)}"
    if plain.exit_code != ours.exit_code:
        what = FAILURE_TOLD if plain.has_failed and ours.exit_code in _FAILURES else "exit code"
        found[what] = f"{ours.exit_code} in place of {plain.exit_code}"
    return found


def _texts(items: Iterable[Any], odd: set[str]) -> Counter[str]:
    return Counter(json.dumps(_without(item, odd), sort_keys=True) for item in items)


def _without(item: Any, odd: set[str]) -> Any:
    return {key: value for key, value in item.items() if key not in odd} if isinstance(item, dict) else item


def _odd_fields(items: Iterable[Any], again: Iterable[Any]) -> set[str]:
    first, second = _values(items), _values(again)
    return {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}


def _values(items: Iterable[Any]) -> dict[str, Counter[str]]:
    values: dict[str, Counter[str]] = {}
    for item in items:
        if isinstance(item, dict):
            for name, value in item.items():
                values.setdefault(name, Counter())[json.dumps(value, sort_keys=True)] += 1
    return values


def _odd_paths(ran: Ran, again: Ran) -> set[str]:
    first, second = _sent(ran, set()), _sent(again, set())
    return {_path(key) for key in (first - second) + (second - first)}


def _sent(ran: Ran, odd: set[str]) -> Counter[str]:
    """Requests that count: of those that had no page the first only, since what failed may be tried again.

    Those with odd paths are counted by their paths.
    """
    failed = set(ran.failed)
    sent: Counter[str] = Counter()
    for key, number in ran.requests.items():
        sent[path if (path := _path(key)) in odd else key] += 1 if key in failed else number
    return sent


def _path(key: str) -> str:
    """A request without its query, its body and its digits."""
    return _digits.sub("#", " ".join(key.split(" ")[:2]).partition("?")[0])


def _first(names: Iterable[str], most: int = 1, letters: int = 300) -> str:
    return (", ".join(list(names)[:most]) or "none")[:letters]
