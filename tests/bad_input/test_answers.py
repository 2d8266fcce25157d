"""Answers that are no good, each for one account: that one fails, with a reason, and all others are harvested."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.bad_input.command import NO_WAITING, Answer, Place
from tests.sandbox.process import Sandbox

GOOD = 20


@dataclass(frozen=True)
class Kind:
    """What an account's answers suffer, and what must be said of it."""

    account: int
    fault: str
    fate: tuple[str, str]
    """Stage, and the beginning of the reason: what was asked for, and the outcome."""
    says: str
    """What is printed of the outcome."""
    named: str = ""
    """What the reason and the terminal name besides."""
    wishes: Mapping[str, Any] = field(default_factory=dict)
    call: str = "getAuthorFeed"


def failed(account: int, fault: str, outcome: str, named: str = "", state: str = "failed", **wishes: Any) -> Kind:
    return Kind(account, fault, (state, f"feed: {outcome}"), f"feed: {outcome.replace('_', ' ')}", named, wishes)


def waiting(account: int, fault: str, outcome: str, named: str = "", **wishes: Any) -> Kind:
    """It is tried again later."""
    return failed(account, fault, outcome, named, "waiting", **wishes)


PASSING = {
    "HTML instead of JSON": waiting(21, "html_instead_of_json", "layout_changed", "JSON"),
    "truncated JSON": waiting(22, "truncated_json", "network", "short"),
    "an empty body": waiting(23, "empty_body", "network", "short"),
    "bytes that are not UTF-8": waiting(24, "not_utf8", "layout_changed"),
    "less than was announced": waiting(25, "wrong_content_length", "network", "short"),
    "a connection that is reset": waiting(26, "reset", "network", "disconnected"),
    "a cursor that the service chokes on": waiting(27, "cursor_500", "server_error", "HTTP 500 InternalServerError"),
    "500 for ever": waiting(55, "status", "server_error", "HTTP 500 InternalServerError", status=500),
}
"""A later run of the same crawl tries these again."""

LASTING = {
    "50 MB": failed(31, "huge", "invalid", "32 MB", megabytes=50),
    "a gzip bomb": failed(32, "gzip_bomb", "invalid", "32 MB"),
    "a redirect without end": failed(33, "redirect_loop", "invalid", "redirect"),
    "a call that the service does not know": failed(
        34, "status", "invalid", "HTTP 501 MethodNotImplemented", status=501, error="MethodNotImplemented"
    ),
    "a redirect into a private network": failed(
        36,
        "status",
        "policy_denied",
        "10.0.0.1",
        "skipped",
        status=302,
        headers={"location": "http://10.0.0.1/latest/meta-data"},
    ),
    "posts without an author": Kind(
        37, "drop_field", ("posts_collected", ""), "posts rejected 3: ", wishes={"field": "did"}
    ),
    "a cursor that repeats itself": Kind(49, "repeat_cursor", ("cut_short", ""), "cursor"),
}
"""These end with the crawl; the next crawl asks anew."""

DAMAGED = (("waiting", "repository: layout_changed: "), "repository: layout changed", "damaged")
OTHERS = {
    "a truncated repository": Kind(39, "truncated_json", *DAMAGED, call="getRepo"),
    "a web page as repository": Kind(40, "html_instead_of_json", *DAMAGED, call="getRepo"),
    "an empty repository": Kind(
        41, "empty_body", ("waiting", "repository: network: "), "repository: network", "short", call="getRepo"
    ),
    "a repository that never comes": Kind(
        57, "hang", ("waiting", "repository: timeout: "), "repository: timeout", "4 seconds", call="getRepo"
    ),
    "JSON of another shape": Kind(
        59,
        "drop_field",
        ("waiting", "follows: layout_changed: "),
        "follows: layout changed",
        "neither followers",
        {"field": "follows"},
        call="getFollows",
    ),
}
"""Likewise, where histories are read from repositories."""


class Told(NamedTuple):
    first: Answer
    fates: dict[str, tuple[str, str]]
    kept: dict[str, set[str]]
    """Posts of each account after the first run."""
    second: Answer
    complete: dict[str, set[str]]
    """Posts of each account in the end."""


def harvest(kinds: Mapping[str, Kind], history: str, private: str, place: Place, site: Sandbox) -> Told:
    """One crawl with all these kinds and a good account, and once more without them."""
    place.set_breaker(site, "enabled = false")  # the accounts are few, and in which order they fail is chance
    place.variables["HARVESTER_ALLOW_PRIVATE_HOSTS"] = private
    place.variables["HARVESTER_PRIVATE_HOSTS"] = site.url.removeprefix("http://")
    faults = [
        site.fault(kind.fault, f"{kind.call}.*{site.did(kind.account)}", **kind.wishes) for kind in kinds.values()
    ]
    dids = [site.did(number) for number in (GOOD, *(kind.account for kind in kinds.values()))]
    options = (*NO_WAITING, "-s", "DOWNLOAD_TIMEOUT=4")
    first = place.crawl(site, *options, seeds=",".join(dids), history=history)
    fates, kept = place.stages(), {did: place.posts_of(did) for did in dids}
    site.clear_faults(*faults)
    second = place.crawl(site, *options, seeds=",".join(dids), history=history)
    return Told(first, fates, kept, second, {did: place.posts_of(did) for did in dids})


STORIES = {
    "passing": partial(harvest, PASSING, "appview", "true"),
    "lasting": partial(harvest, LASTING, "appview", "false"),
    "others": partial(harvest, OTHERS, "car", "true"),
}
TABLES = {"passing": PASSING, "lasting": LASTING, "others": OTHERS}


@pytest.mark.parametrize(
    ("story", "name"),
    [
        pytest.param(story, name, marks=pytest.mark.slow if story == "others" else ())
        for story, kinds in TABLES.items()
        for name in kinds
    ],
)
def test_a_bad_answer_is_named_and_costs_one_account_until_the_next_run(
    story: str, name: str, told: Callable[[str], Told], site: Sandbox
) -> None:
    kind, (first, fates, _, second, complete) = TABLES[story][name], told(story)
    did = site.did(kind.account)
    stage, reason = fates[did]
    assert kind.says in first.said, first.text
    assert kind.named in first.said, first.text
    assert stage == kind.fate[0]
    assert reason.startswith(kind.fate[1])
    assert kind.named in reason
    assert first.is_for_people(), first.text
    assert first.code == (6 if story == "lasting" else 7), first.text
    assert second.is_for_people(), second.text
    assert second.code == 0, second.text
    assert complete[did] == set(site.truth_of(seeds=[kind.account], hops=0).posts)


@pytest.mark.parametrize("story", ["passing", "lasting", pytest.param("others", marks=pytest.mark.slow)])
def test_bad_answers_of_others_cost_an_account_nothing(story: str, told: Callable[[str], Told], site: Sandbox) -> None:
    _, fates, kept, _, _ = told(story)
    assert fates[site.did(GOOD)] == ("posts_collected", "")
    assert kept[site.did(GOOD)] == set(site.truth_of(seeds=[GOOD], hops=0).posts)
