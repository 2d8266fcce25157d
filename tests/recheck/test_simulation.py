"""Re-checks of made-up accounts: the rules of the simulation are the product's, and `budget` sees new things early."""

from random import Random

import numpy as np
import pytest

from harvester.recheck import Budget, Look, VisitPolicy
from harvester.recheck.adaptive import Adaptive, grade_of
from harvester.recheck.every import Every, share_of
from harvester.recheck.policy import DAY_S
from harvester.recheck.rates import rate_of
from tests.bench import recheck
from tests.bench.accounts import Accounts
from tests.bench.looking import AdaptiveRule, BudgetRule, EveryRule, Rule

LOOKS = 40


def dues(rule: Rule, policy: VisitPolicy, interval: float = 1.0) -> list[tuple[float, float]]:
    """When an account is due by rule and policy, look by look; its rate changes, and looks are a little late."""
    random, looks, both, name = Random(5), [], [], "account 3"
    which = np.array([3])
    at = float(rule.due[3])
    for number in range(LOOKS):
        found = int(random.expovariate(0.3 if number % 20 < 10 else 5))
        looks.append(Look(at * DAY_S, found))
        rule.looked(which, np.array([at]), np.array([found]))
        both.append((float(rule.due[3]), policy.due(name, looks, 0).at / DAY_S))
        at = float(rule.due[3]) + interval * random.random() / 9
    return both


def test_the_rule_every_is_the_policy() -> None:
    for simulated, due in dues(EveryRule(4, 0.5), Every(43_200)):
        assert simulated == pytest.approx(due)


def test_the_rule_adaptive_is_the_policy() -> None:
    """Which has a jitter, and forgets what the simulation still knows with a weight of a fifty-thousandth."""
    rule, jitter = AdaptiveRule(4, 2.0), 1 + 0.1 * (share_of("account 3") - 0.5)
    looks, random, at = [], Random(5), 0.0
    for number in range(LOOKS):
        at += 0.5
        found = int(random.expovariate(0.3 if number % 20 < 10 else 5))
        looks.append(Look(at * DAY_S, found))
        interval = rule.interval(np.array([3]), np.array([at]), np.array([found]))
        due = Adaptive(multiplier=2.0).due("account 3", looks, 0).at / DAY_S
        assert interval[0] * jitter == pytest.approx(due - at, rel=1e-3)
        assert rule.grade[3] == pytest.approx(grade_of(looks), abs=1e-4)


def test_the_rule_budget_is_the_policy() -> None:
    rule = BudgetRule(4, 8.0)
    for simulated, due in dues(rule, Budget(8)):
        assert simulated == pytest.approx(due)
    assert rule.rate[3] != rate_of([])


def test_budget_sees_new_things_earlier_than_others_with_as_many_looks_and_nearly_as_early_as_can_be() -> None:
    """A small copy of `python -m tests.bench.recheck`, which has the targets."""
    found = dict(recheck.policies(Accounts(300, 40, 1)))
    delay = {name: looks.delay_h for name, looks in found.items()}
    assert delay[recheck.BUDGET] < 0.47 * delay[recheck.FIXED]
    assert delay[recheck.BUDGET] < 0.9 * delay[recheck.TUNED]
    assert delay[recheck.BUDGET] < 1.25 * delay[recheck.OPTIMUM]
    assert delay[recheck.BUDGET] < delay[recheck.TOKENS]
    for looks in found.values():
        assert looks.a_day == pytest.approx(600, rel=0.02)
