"""What follows from an attempt is decided by its outcome's policy, unless a step advises otherwise."""

from itertools import chain, combinations, product

import pytest

from harvester.fetch.decide import Advice, AttemptResult, Retry, decide
from harvester.outcomes import POLICIES, Outcome

TRIES = range(1, 16)
ADVICES = [set(each) for each in chain.from_iterable(combinations(Advice, number) for number in range(4))]


@pytest.mark.parametrize("outcome", Outcome)
def test_each_combination_is_decided_by_the_strongest_advice_and_else_by_the_numbers(outcome: Outcome) -> None:
    policy = POLICIES[outcome]
    for tries, advices, dont_retry, max_retries, answered in product(
        TRIES, ADVICES, (False, True), (None, 0, 2), (False, True)
    ):
        attempt = AttemptResult(outcome, tries, tries - 1, max_retries, answered, dont_retry)
        decision = decide(attempt, policy, advices)
        if Advice.NONE in advices:
            expected = False
        elif advices:
            expected = True
        else:
            allowed = policy.retries if max_retries is None else max_retries
            if outcome is Outcome.NETWORK and not answered and max_retries is None:
                allowed = 2
            expected = tries <= allowed and not dont_retry
        assert (decision is not None) is expected, attempt
        if decision:
            assert decision.is_counted is (Advice.FREE not in advices)
            assert 0 <= decision.backoff_s <= policy.most_backoff_s


@pytest.mark.parametrize(
    ("outcome", "tries", "advices", "decision"),
    [
        (Outcome.SERVER_ERROR, 1, [], Retry(True, 1.0)),
        (Outcome.SERVER_ERROR, 4, [], Retry(True, 8.0)),
        (Outcome.SERVER_ERROR, 5, [], Retry(True, 16.0)),
        (Outcome.SERVER_ERROR, 6, [], None),
        (Outcome.MAINTENANCE, 3, [], Retry(True, 60.0)),
        (Outcome.BLOCKED, 1, [], None),
        (Outcome.BLOCKED, 1, [Advice.COUNTED], Retry(True, 0.0)),
        (Outcome.SESSION_EXPIRED, 1, [Advice.FREE], Retry(False, 0.0)),
        (Outcome.LOCAL, 1, [Advice.FREE], Retry(False, 1.0)),
        (Outcome.PROXY, 1, [Advice.NONE, Advice.COUNTED], None),
    ],
)
def test_the_backoff_doubles_with_each_counted_try(
    outcome: Outcome, tries: int, advices: list[Advice], decision: Retry | None
) -> None:
    assert decide(AttemptResult(outcome, tries), POLICIES[outcome], advices) == decision
