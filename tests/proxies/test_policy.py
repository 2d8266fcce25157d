"""What each outcome says of the proxy that carried it, and which way the next try takes."""

from typing import Any

import pytest

from harvester.outcomes import POLICIES, Outcome
from harvester.proxies.faults import FaultKind
from harvester.proxies.policy import MOST_ROTATED, Attempt, NextRoute, ProxyHealth, health_of, route_after

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
