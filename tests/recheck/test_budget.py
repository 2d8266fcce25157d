"""A site's requests go where looks find most."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.recheck import Budget, Demand, Threshold, threshold
from harvester.recheck.budget import interval
from tests.numbers import numbers_of
from tests.recheck.histories import DAY, NOW, changes, history

SHORTEST, LONGEST = 900.0, 3 * DAY
rates = st.floats(0.001, 500)
demands = st.lists(
    st.builds(Demand, rates, st.floats(0.05, 3), st.floats(0.1, 9), st.booleans(), st.integers(1, 99)),
    min_size=1,
    max_size=9,
)


def taken(items: list[Demand], site: Threshold) -> float:
    """Requests a day."""
    return sum(item.items * item.cost * DAY / interval(item, site.theta, SHORTEST, site.longest_s) for item in items)


@given(demands, st.floats(1, 1e5))
def test_the_threshold_makes_looks_take_the_budget(items: list[Demand], a_day: float) -> None:
    site = threshold(items, a_day, SHORTEST, LONGEST)
    most = taken(items, Threshold(0, LONGEST))
    assert taken(items, site) == pytest.approx(min(a_day, most), rel=1e-3)


@given(demands, st.floats(1, 1e5))
def test_nobody_waits_longer_than_three_days_where_the_budget_reaches_for_that(
    items: list[Demand], a_day: float
) -> None:
    site = threshold(items, a_day, SHORTEST, LONGEST)
    enough = sum(item.items * item.cost for item in items) / 3 <= a_day
    assert (site.longest_s == LONGEST) == enough or site.longest_s == pytest.approx(LONGEST)
    assert all(interval(item, site.theta, SHORTEST, site.longest_s) <= site.longest_s for item in items)


def test_a_budget_that_is_too_small_is_shared_evenly() -> None:
    items = [Demand(0.1), Demand(1), Demand(50), Demand(50, only_changes=True)]
    site = threshold(items, 0.5, SHORTEST, LONGEST)
    assert {interval(item, site.theta, SHORTEST, site.longest_s) for item in items} == {8 * DAY}


@given(st.lists(st.tuples(rates, st.floats(0.1, 3)), min_size=2, max_size=6), st.floats(0.5, 9), st.data())
def test_no_other_looks_of_the_same_cost_have_less_delay(
    drawn: list[tuple[float, float]], a_day: float, data: st.DataObject
) -> None:
    """Moving a request from one item to another makes the sum of rate / (2 x looks a day) larger, never smaller."""
    items = [Demand(rate, cost) for rate, cost in drawn]
    site = threshold(items, a_day, 1, 1e9)
    looks = [DAY / interval(item, site.theta, 1, 1e9) for item in items]
    giver, taker = data.draw(st.permutations(range(len(items))))[:2]
    moved = 0.1 * looks[giver]
    other = list(looks)
    other[giver] -= moved
    other[taker] += moved * items[giver].cost / items[taker].cost

    def delay(looks: list[float]) -> float:
        return sum(item.rate / (2 * often) for item, often in zip(items, looks, strict=True))

    assert delay(other) >= delay(looks) * (1 - 1e-6)


def test_looks_go_with_the_square_root_of_worth_and_rate_over_cost() -> None:
    usual = interval(Demand(1), 0.5, SHORTEST, LONGEST)
    assert usual == DAY
    assert interval(Demand(4), 0.5, SHORTEST, LONGEST) == pytest.approx(usual / 2)
    assert interval(Demand(1, worth=4), 0.5, SHORTEST, LONGEST) == pytest.approx(usual / 2)
    assert interval(Demand(1, cost=0.25), 0.5, SHORTEST, LONGEST) == pytest.approx(usual / 2)


def test_index_reaches_the_threshold_when_an_item_is_due() -> None:
    demand, theta = Demand(2.5, cost=0.5, worth=3), 1.7
    age = interval(demand, theta, 0, 1e9) / DAY
    assert demand.worth * demand.rate * age**2 / (2 * demand.cost) == pytest.approx(theta)


@given(rates, st.floats(0.01, 10))
def test_changes_follow_the_harmonic_rule(rate: float, theta: float) -> None:
    """Looks a day solve f (f + rate) = worth x rate / (2 x cost x theta): hardly more for what always changes."""
    looks = DAY / interval(Demand(rate, only_changes=True), theta, 0, 1e12)
    assert looks * (looks + rate) == pytest.approx(rate / (2 * theta), rel=1e-6)
    assert looks < sqrt(rate / (2 * theta))


def test_a_due_says_what_comes_and_how_often_it_is_looked() -> None:
    policy = Budget(400)
    assert numbers_of(policy.due("a", history([9] + [4] * 30, 0.5), NOW).why) == [7.7, 8.7]
    idle, busy = (policy.due("a", history(*seen), NOW).why for seen in (([0] * 31, 2), ([9] + [500] * 30, 0.01)))
    assert ("every 3 days" in idle, "longest" in idle) == (True, True)
    assert (numbers_of(busy), "shortest" in busy) == ([18_667, 15], True)
    assert "35 h" in policy.due("a", changes([True, False] * 9), NOW).why


def test_an_item_that_wakes_is_looked_at_sooner_and_one_that_falls_silent_later() -> None:
    policy = Budget(400)
    idle, waking = history([0] * 31, 3), history([0] * 30 + [30], 3)
    busy, silent = history([5] * 31, 0.3), history([5] * 21 + [0] * 10, 0.3)
    assert policy.due("a", waking, NOW).at - NOW < (policy.due("a", idle, NOW).at - NOW) / 2
    assert policy.due("a", silent, NOW).at > policy.due("a", busy, NOW).at


def test_a_site_s_threshold_is_what_its_items_are_due_by() -> None:
    policy, looks = Budget(100), history([3] + [1] * 20)
    site = threshold([policy.demand(looks)._replace(items=400)], policy.a_day, policy.shortest_s, policy.longest_s)
    due = policy.under(site).due("a", looks, NOW).at - NOW
    assert due == site.longest_s == 4 * DAY
    site = threshold([policy.demand(looks)._replace(items=80)], policy.a_day, policy.shortest_s, policy.longest_s)
    assert policy.under(site).due("a", looks, NOW).at - NOW == pytest.approx(0.8 * DAY, rel=1e-3)
