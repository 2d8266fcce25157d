"""What the counts of a site lead to, and what they do not."""

from typing import Any

import msgspec
import pytest

from harvester.breaker.judgement import (
    Breaker,
    BreakerRules,
    Decision,
    Pages,
    Records,
    by_hand,
    drifted,
    judge,
    lost_fields,
)
from harvester.sites.breaker import SiteBreaker

NOW_MS = 1_790_000_000_000.0
RULES = SiteBreaker(
    least_tries=20,
    refusals_in_a_row=5,
    failures_in_a_row=10,
    open_seconds=0.1,
    most_open_seconds=0.4,
    probes=2,
)


def breaker(state: str = "closed", rules: SiteBreaker = RULES, **counts: Any) -> Breaker:
    return Breaker("s", msgspec.convert(rules.rules(), BreakerRules), state, **counts)


def half_open(**counts: Any) -> Breaker:
    """Two probes are out or have answered, and there are others."""
    return breaker("half_open", **{"cause": "refusals", "opens": 1, "granted": 2, "parked": 9, **counts})


def cause_of(decision: Decision | None) -> str | None:
    return decision.cause if decision else None


def tries(failed: int, well: int) -> dict[str, Any]:
    """In two buckets."""
    return {"window": [(1, failed, failed, {"blocked": failed}), (2, well, 0, {"ok": well} if well else [])]}


def pages(*full: int, misread: bool = False) -> list[Pages]:
    """Samples of 50, with so many that have something in them."""
    return [(50, (number, 50 - number if misread else 0)) for number in full]


def records(*having: int) -> list[Records]:
    """Samples of 50, with so many that have an owner."""
    return [(50, {"number": 50, "owner": number}) for number in having]


def test_rules_are_read_in_the_order_in_which_an_entry_gives_them() -> None:
    rules = breaker().rules
    assert (rules.window_ms, rules.open_ms, rules.most_open_ms) == (300_000, 100, 400)
    assert (rules.least_tries, rules.failure_ratio, rules.probes, rules.sample) == (20, 0.5, 2, 50)
    assert (rules.refusals_in_a_row, rules.failures_in_a_row, rules.most_misread) == (5, 10, 10)


@pytest.mark.parametrize(
    ("counts", "cause"),
    [
        ({"refusals": 4, "failures": 9}, None),
        ({"refusals": 5}, "refusals"),
        ({"failures": 10}, "failures"),
        ({"misread": 9}, None),
        ({"misread": 10}, "layout"),
        (tries(13, 6), None),
        (tries(11, 9), "ratio"),
        (tries(10, 10), None),
        ({"refusals": 5, **tries(20, 0)}, "refusals"),
    ],
)
def test_rows_and_ratios_open_it_from_their_thresholds_on(counts: dict[str, Any], cause: str | None) -> None:
    decision = judge(breaker(**counts), NOW_MS)
    assert cause_of(decision) == cause
    assert decision is None or (decision.to, decision.wait, decision.opens) == ("open", 100, 1)


def test_one_that_is_off_is_opened_by_nothing_that_is_seen() -> None:
    counts: dict[str, Any] = {
        "refusals": 500,
        "failures": 500,
        "misread": 500,
        "pages": pages(50, 0),
        "records": {"parcel": records(50, 0)},
    }
    off = SiteBreaker(enabled=False, least_tries=1)
    assert judge(breaker(rules=off, **counts, **tries(500, 0)), NOW_MS) is None
    assert by_hand(breaker(rules=off), "open", "ann", NOW_MS) is not None


@pytest.mark.parametrize("state", ["open", "held"])
def test_one_that_is_open_or_held_is_not_judged(state: str) -> None:
    counts: dict[str, Any] = {"refusals": 9, "good": 9, "granted": 2, "ill": 1}
    assert judge(breaker(state, **counts, **tries(50, 0)), NOW_MS) is None


# How long it is open --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("opens", "wait"), [(1, 200), (2, 400), (3, 400), (5000, 400)])
def test_the_time_doubles_with_each_failed_probe_up_to_a_bound(opens: int, wait: float) -> None:
    decision = judge(half_open(opens=opens, ill=1), NOW_MS)
    assert decision == Decision("open", wait=wait, opens=opens + 1)


@pytest.mark.parametrize(("ago_ms", "opens"), [(299_999, 4), (300_000, 1)])
def test_it_goes_on_doubling_when_it_was_closed_for_less_than_a_window(ago_ms: float, opens: int) -> None:
    for decision in (
        judge(breaker(refusals=5, opens=3, closed=NOW_MS - ago_ms), NOW_MS),
        by_hand(breaker(opens=3, closed=NOW_MS - ago_ms), "open", "ann", NOW_MS),
    ):
        assert decision is not None
        assert decision.opens == opens


# Probes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "to"),
    [
        ({}, None),
        ({"good": 1}, None),
        ({"good": 2}, "closed"),
        ({"good": 2, "ill": 1}, "open"),
        ({"ill": 1}, "open"),
        ({"good": 1, "granted": 1}, None),
        ({"good": 1, "granted": 1, "parked": 0}, "closed"),
        ({"good": 1, "granted": 1, "parked": 0, "name": "s\0datacenter"}, None),
        ({"granted": 0, "parked": 0}, None),
        ({"cause": "drift", "good": 1, "blank": 1}, "closed"),
        ({"cause": "drift", "blank": 2}, "open"),
        ({"cause": "drift", "blank": 1}, None),
    ],
)
def test_all_probes_close_it_and_a_failed_one_opens_it(counts: dict[str, Any], to: str | None) -> None:
    decision = judge(msgspec.structs.replace(half_open(), **counts), NOW_MS)
    assert (decision.to if decision else None) == to


@pytest.mark.parametrize(("owners", "to"), [((), None), ([(1, {"owner": 1})], "closed"), ([(2, {"owner": 0})], "open")])
def test_one_that_lost_a_field_asks_whether_probes_have_it(owners: list[Records], to: str | None) -> None:
    proved = {"parcel": owners, "sale": [(9, {"price": 0})]}
    counts = {"cause": "fields", "lost": [("parcel", "owner")], "good": 2, "proved": proved}
    decision = judge(half_open(**counts), NOW_MS)
    assert (decision.to if decision else None) == to


# What pages have in them ----------------------------------------------------------------------------------


def test_pages_that_are_all_empty_at_once_open_it_and_are_not_usual_afterwards() -> None:
    usual = pages(40, 40)
    decision = judge(breaker(pages=[*usual, *pages(1), (7, (0, 0))]), NOW_MS)
    assert decision == Decision("open", 100, "drift", 1, lost=[], drift=(50, 49), pages=usual)


def test_a_sample_that_is_not_full_says_nothing() -> None:
    assert judge(breaker(pages=[*pages(40), (49, (0, 0))]), NOW_MS) is None


@pytest.mark.parametrize("full", [50, 30, 15, 2, 0])
def test_a_site_with_many_empty_pages_is_asked_on(full: int) -> None:
    assert drifted(pages(*21 * [full])) == 0


def test_a_site_whose_pages_seldom_had_anything_in_them_is_noticed_later() -> None:
    assert drifted(pages(*9 * [3], 0, 0, 0)) == 0
    assert drifted(pages(*9 * [3], 0, 0, 0, 0)) == 4


def test_pages_that_look_different_all_at_once_open_it_even_at_the_beginning() -> None:
    assert drifted(pages(9, misread=True)) == 1
    assert drifted(pages(10, misread=True)) == 0
    assert drifted(pages(0)) == 0, "it may always be empty"


# Which fields records have --------------------------------------------------------------------------------


def test_a_field_that_vanishes_opens_it_and_is_usual_still() -> None:
    usual = records(50, 45)
    counts: dict[str, Any] = {
        "records": {"parcel": [*usual, *records(4), (3, {"number": 3, "owner": 3})], "sale": records(50)}
    }
    decision = judge(breaker(**counts), NOW_MS)
    assert decision is not None
    assert (decision.cause, decision.lost) == ("fields", [("parcel", "owner")])
    assert decision.records is not None
    assert decision.records["parcel"] == usual


@pytest.mark.parametrize("samples", [(0,), (0, 0), (40, 0), (50, 5), (50, 50)])
def test_a_field_that_was_always_rare_or_is_not_gone_is_not_missed(samples: tuple[int, ...]) -> None:
    assert lost_fields(records(*samples)) == []


# By hand --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["closed", "open", "half_open", "held"])
@pytest.mark.parametrize("wanted", ["closed", "open", "held"])
def test_a_person_gets_any_state_and_what_was_said_before_is_forgotten(state: str, wanted: str) -> None:
    decision = by_hand(breaker(state, opens=1, said="HTTP 403"), wanted, "ann", NOW_MS)
    if state == wanted != "open":
        assert decision is None
    else:
        assert decision is not None
        assert (decision.to, decision.by, decision.cause, decision.said, decision.lost) == (
            wanted,
            "ann",
            "person",
            "",
            [],
        )
        assert (decision.wait is not None) == (wanted == "open")


def test_a_breaker_is_read_as_lua_writes_it() -> None:
    record = {"state": "closed", "since": 1, "rules": RULES.rules(), "pages": [[50, [40, 0]]], "records": [], "bad": []}
    record |= {"window": [[1, 2, 0, {"ok": 2}], [2, 0, 0, []], [3, 3, 1, {"ok": 2, "dns": 1}]], "lost": [["a", "b"]]}
    read = Breaker.read(record)
    assert (read.pages, read.records, read.lost) == (pages(40), {}, [("a", "b")])
    assert read.tries() == (5, 1)
