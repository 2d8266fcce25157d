"""What each outcome says of the proxy that carried it, and which way the next try takes."""

from typing import Any

import pytest

from harvester.outcomes import POLICIES, Outcome
from harvester.proxies.faults import FaultKind
from harvester.proxies.policy import MOST_ROTATED, Carried, Standing, Step, standing_of, step_after

AUTH, CAPACITY, POLICY, TARGET, GONE = (
    FaultKind.AUTH, FaultKind.CAPACITY, FaultKind.POLICY, FaultKind.TARGET, FaultKind.UNREACHABLE,
)  # fmt: skip
REFUSALS = (Outcome.POLICY_DENIED, Outcome.CHALLENGE, Outcome.AUTH_REQUIRED, Outcome.NOT_FOUND, Outcome.RATE_LIMITED)


def tried(outcome: Outcome, fault: FaultKind | None = None, **more: Any) -> Carried:
    return Carried(POLICIES[outcome], fault, **{"answered": True, "listed": True, **more})


@pytest.mark.parametrize("outcome", list(Outcome))
def test_an_answer_is_held_against_a_proxy_only_where_the_policy_says_so(outcome: Outcome) -> None:
    assert standing_of(tried(outcome)) is (Standing.BAD if POLICIES[outcome].proxy else Standing.GOOD)
    assert standing_of(tried(outcome, listed=False)) is Standing.GOOD  # the next request leaves by another address


@pytest.mark.parametrize(
    ("carried", "standing"),
    [
        (tried(Outcome.NOT_FOUND), Standing.GOOD),
        (tried(Outcome.SERVER_ERROR), Standing.GOOD),
        (tried(Outcome.BLOCKED), Standing.BAD),
        (tried(Outcome.TIMEOUT, answered=False), Standing.BAD),
        (tried(Outcome.TIMEOUT, answered=False, listed=False), Standing.UNKNOWN),
        (tried(Outcome.PROXY, AUTH, listed=False), Standing.REFUSED),
        (tried(Outcome.PROXY, GONE, answered=False, listed=False), Standing.BAD),
        (tried(Outcome.PROXY, CAPACITY, listed=False), Standing.GOOD),
        (tried(Outcome.PROXY, CAPACITY), Standing.BAD),
        (tried(Outcome.NETWORK, TARGET), Standing.GOOD),
        (tried(Outcome.INVALID, answered=False), Standing.UNKNOWN),
    ],
)
def test_standing(carried: Carried, standing: Standing) -> None:
    assert standing_of(carried) is standing


@pytest.mark.parametrize("outcome", REFUSALS)
@pytest.mark.parametrize("last_try", [False, True])
def test_a_refusal_by_policy_never_leads_to_another_address(outcome: Outcome, last_try: bool) -> None:
    assert step_after(tried(outcome, other_lives=True, last_try=last_try)) is Step.TABLE


@pytest.mark.parametrize(
    ("carried", "step"),
    [
        (tried(Outcome.BLOCKED, other_lives=True, last_try=True), Step.ROTATE),
        (tried(Outcome.BLOCKED, other_lives=True, last_try=True, rotated=MOST_ROTATED), Step.CLIMB),
        (tried(Outcome.BLOCKED, last_try=True), Step.CLIMB),
        (tried(Outcome.BLOCKED, listed=False, other_lives=True, last_try=True), Step.CLIMB),
        (tried(Outcome.BLOCKED, TARGET, last_try=True), Step.CLIMB),
        (tried(Outcome.PROXY, CAPACITY, listed=False), Step.TABLE),  # the same tier again
        (tried(Outcome.PROXY, CAPACITY, listed=False, last_try=True), Step.CLIMB),
        (tried(Outcome.PROXY, CAPACITY, other_lives=True), Step.OTHER),
        (tried(Outcome.PROXY, GONE, other_lives=True), Step.OTHER),
        (tried(Outcome.PROXY, GONE), Step.TABLE),
        (tried(Outcome.PROXY, AUTH), Step.OTHER),
        (tried(Outcome.PROXY, POLICY, other_lives=True), Step.OTHER),
        (tried(Outcome.PROXY, POLICY), Step.STOP),
        (tried(Outcome.PROXY, POLICY, listed=False, last_try=True), Step.STOP),
        (tried(Outcome.TIMEOUT, other_lives=True, last_try=True), Step.TABLE),
        (tried(Outcome.DNS, TARGET, other_lives=True), Step.TABLE),
    ],
)
def test_step(carried: Carried, step: Step) -> None:
    assert step_after(carried) is step
