"""What each outcome says of the proxy that carried it, and which way the next try takes."""

from typing import Any

import pytest

from harvester.outcomes import POLICIES, Outcome
from harvester.proxies.faults import FaultKind
from harvester.proxies.policy import (
    MOST_ROTATED,
    Attempt,
    NextRoute,
    ProxyHealth,
    TierChoice,
    health_of,
    is_news,
    route_after,
    tier_for,
)

AUTH, CAPACITY, POLICY, TARGET, GONE = (
    FaultKind.AUTH, FaultKind.CAPACITY, FaultKind.POLICY, FaultKind.TARGET, FaultKind.UNREACHABLE,
)  # fmt: skip
REFUSALS = (Outcome.POLICY_DENIED, Outcome.CHALLENGE, Outcome.AUTH_REQUIRED, Outcome.NOT_FOUND, Outcome.RATE_LIMITED)


def tried(outcome: Outcome, fault: FaultKind | None = None, **more: Any) -> Attempt:
    return Attempt(POLICIES[outcome], fault, **{"answered": True, "listed": True, **more})


@pytest.mark.parametrize("outcome", list(Outcome))
def test_an_answer_is_held_against_a_proxy_only_where_the_policy_says_so(outcome: Outcome) -> None:
    assert health_of(tried(outcome)) is (ProxyHealth.BAD if POLICIES[outcome].proxy else ProxyHealth.GOOD)
    assert health_of(tried(outcome, listed=False)) is ProxyHealth.GOOD  # the next request leaves by another address


@pytest.mark.parametrize(
    ("carried", "standing"),
    [
        (tried(Outcome.NOT_FOUND), ProxyHealth.GOOD),
        (tried(Outcome.SERVER_ERROR), ProxyHealth.GOOD),
        (tried(Outcome.BLOCKED), ProxyHealth.BAD),
        (tried(Outcome.TIMEOUT, answered=False), ProxyHealth.BAD),
        (tried(Outcome.TIMEOUT, answered=False, listed=False), ProxyHealth.UNKNOWN),
        (tried(Outcome.PROXY, AUTH, listed=False), ProxyHealth.REFUSED),
        (tried(Outcome.PROXY, GONE, answered=False, listed=False), ProxyHealth.BAD),
        (tried(Outcome.PROXY, CAPACITY, listed=False), ProxyHealth.GOOD),
        (tried(Outcome.PROXY, CAPACITY), ProxyHealth.BAD),
        (tried(Outcome.NETWORK, TARGET), ProxyHealth.GOOD),
        (tried(Outcome.INVALID, answered=False), ProxyHealth.UNKNOWN),
    ],
)
def test_standing(carried: Attempt, standing: ProxyHealth) -> None:
    assert health_of(carried) is standing


@pytest.mark.parametrize("outcome", REFUSALS)
@pytest.mark.parametrize("last_try", [False, True])
def test_a_refusal_by_policy_never_leads_to_another_address(outcome: Outcome, last_try: bool) -> None:
    assert route_after(tried(outcome, other_lives=True, last_try=last_try)) is NextRoute.TABLE


@pytest.mark.parametrize(
    ("carried", "step"),
    [
        (tried(Outcome.BLOCKED, other_lives=True, last_try=True), NextRoute.ROTATE),
        (tried(Outcome.BLOCKED, other_lives=True, last_try=True, rotated=MOST_ROTATED), NextRoute.ESCALATE),
        (tried(Outcome.BLOCKED, last_try=True), NextRoute.ESCALATE),
        (tried(Outcome.BLOCKED, listed=False, other_lives=True, last_try=True), NextRoute.ESCALATE),
        (tried(Outcome.BLOCKED, TARGET, last_try=True), NextRoute.ESCALATE),
        (tried(Outcome.PROXY, CAPACITY, listed=False), NextRoute.TABLE),  # the same tier again
        (tried(Outcome.PROXY, CAPACITY, listed=False, last_try=True), NextRoute.ESCALATE),
        (tried(Outcome.PROXY, CAPACITY, other_lives=True), NextRoute.OTHER),
        (tried(Outcome.PROXY, GONE, other_lives=True), NextRoute.OTHER),
        (tried(Outcome.PROXY, GONE), NextRoute.TABLE),
        (tried(Outcome.PROXY, AUTH), NextRoute.OTHER),
        (tried(Outcome.PROXY, POLICY, other_lives=True), NextRoute.OTHER),
        (tried(Outcome.PROXY, POLICY), NextRoute.STOP),
        (tried(Outcome.PROXY, POLICY, listed=False, last_try=True), NextRoute.STOP),
        (tried(Outcome.TIMEOUT, other_lives=True, last_try=True), NextRoute.TABLE),
        (tried(Outcome.DNS, TARGET, other_lives=True), NextRoute.TABLE),
    ],
)
def test_step(carried: Attempt, step: NextRoute) -> None:
    assert route_after(carried) is step


@pytest.mark.parametrize(
    ("works", "least", "passed", "leaves_by"),
    [
        (0, 0, "", 0),
        (0, 0, "0", 1),
        (0, 0, "01", 2),
        (0, 0, "012", None),
        (0, 1, "0", 1),
        (0, 1, "1", 2),
        (0, 2, "1", 2),
        (0, 2, "2", None),
        (2, 0, "", 2),
        (2, 0, "2", 1),
        (2, 0, "12", 0),
        (2, 1, "12", None),
        (1, 2, "", 2),
    ],
)
def test_a_tier_that_is_passed_over_is_replaced_by_the_next_that_the_request_may_use(
    works: int, least: int, passed: str, leaves_by: int | None
) -> None:
    choice = tier_for(works, least, [str(tier) in passed for tier in range(3)], is_time=False)
    assert choice == (None if leaves_by is None else TierChoice(leaves_by))


@pytest.mark.parametrize(
    ("works", "least", "passed", "choice"),
    [
        (0, 0, (), TierChoice(0)),
        (2, 0, (), TierChoice(1, probe=True)),
        (2, 2, (), TierChoice(2)),
        (2, 1, (), TierChoice(1, probe=True)),
        (2, 0, (1,), TierChoice(2)),
        (2, 0, (1, 2), TierChoice(0)),
        (2, 0, (2,), TierChoice(1, probe=True)),
    ],
)
def test_when_it_is_time_the_tier_below_is_tried_by_a_request_that_may_use_it(
    works: int, least: int, passed: tuple[int, ...], choice: TierChoice
) -> None:
    assert tier_for(works, least, [tier in passed for tier in range(3)], is_time=True) == choice


def test_only_a_probe_makes_a_cheaper_tier_the_one_that_works() -> None:
    assert [is_news(1, answered, probe=False) for answered in range(3)] == [False, False, True]
    assert [is_news(1, answered, probe=True) for answered in range(3)] == [True, False, True]
