"""Each exchange has its outcome by its rule, and each part of each rule is needed by an exchange."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from scrapy.http import Response

from harvester.outcomes import OK, Outcome, classify, classify_exception
from harvester.outcomes.answer import LIKE_200
from harvester.outcomes.classifier import UNKNOWN_EXCEPTION, UNKNOWN_STATUS, _classes, _numbers, judge
from harvester.outcomes.rules import FailureRule, Rule, RuleBase, RuleBook, common_book, common_rules
from tests.outcomes.exchanges import API, EXCHANGES, FAILURES, JSON, PDS, SITE, SOCRATA, Exchange, Failure

RULES, FAILURE_RULES = common_rules().answers, common_rules().failures


def _name(exchange: object) -> str:
    return f"{exchange.rule or 'ok'}-{exchange.status}" if isinstance(exchange, Exchange) else ""


@pytest.mark.parametrize("exchange", EXCHANGES, ids=_name)
def test_exchange_has_its_outcome_by_its_rule(exchange: Exchange) -> None:
    verdict = judge(exchange.answer(), common_book())
    assert (verdict.outcome, verdict.rule) == (exchange.outcome, exchange.rule)
    assert (verdict is OK) == (exchange.outcome is Outcome.OK)
    assert verdict.known == (verdict.rule not in (UNKNOWN_STATUS, "error-in-a-200"))
    if verdict is not OK:
        assert verdict.status == exchange.status
        assert verdict.reason or verdict.outcome is Outcome.UNCHANGED
    if not exchange.ending:
        assert classify(exchange.response(), exchange.request()) == verdict


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: f"{failure.rule}")
def test_request_without_an_answer_has_its_outcome_by_its_rule(failure: Failure) -> None:
    verdict = classify_exception(failure.error)
    assert (verdict.outcome, verdict.rule) == (failure.outcome, failure.rule)
    assert verdict.known == (verdict.rule != UNKNOWN_EXCEPTION)
    assert verdict.reason
    assert "ssl:" not in verdict.reason


def test_there_are_enough_exchanges_and_rules_have_names_of_their_own() -> None:
    assert len(EXCHANGES) + len(FAILURES) >= 150
    names = Counter(rule.name for rule in (*RULES, *FAILURE_RULES))
    assert [name for name, number in names.items() if number > 1] == []
    told = {exchange.outcome for exchange in EXCHANGES} | {failure.outcome for failure in FAILURES}
    assert told == set(Outcome)


CONDITIONS = sorted(set(Rule.model_fields) - set(RuleBase.model_fields))


def _mutants(rule: Rule | FailureRule, conditions: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rule without a condition, or without an entry of one."""
    given = rule.model_dump(exclude_defaults=True)
    for name in conditions:
        if name not in given:
            continue
        if name == "error" and isinstance(rule, FailureRule):
            yield "any exception", given | {name: ("builtins.BaseException",)}
        else:
            yield f"without {name}", {key: value for key, value in given.items() if key != name}
        entries = given[name] if isinstance(given[name], tuple) else ()
        for index in range(len(entries) if len(entries) > 1 else 0):
            yield f"{name} without {entries[index]}", given | {name: entries[:index] + entries[index + 1 :]}


ANSWERS = [(exchange.rule, exchange.answer()) for exchange in EXCHANGES]


def _told_from(rules: tuple[Rule, ...] | tuple[FailureRule, ...], index: int, told: str) -> bool | None:
    """Whether an exchange is told by the rule; None when a rule before it tells it, whatever the rule is changed to."""
    order = next((number for number, rule in enumerate(rules) if rule.name == told), len(rules))
    return None if order < index else order == index


@pytest.mark.parametrize("index", range(len(RULES)), ids=lambda index: RULES[index].name)
def test_every_part_of_a_rule_on_answers_is_needed(index: int) -> None:
    rule = RULES[index]
    asked = [(answer, told) for name, answer in ANSWERS if (told := _told_from(RULES, index, name)) is not None]

    def differs(mutant: Rule) -> bool:
        book = RuleBook([mutant])
        return any((book.first(answer) is not None) != told for answer, told in asked)

    assert not differs(rule)
    unneeded = [what for what, mutant in _mutants(rule, CONDITIONS) if not differs(Rule.model_construct(**mutant))]
    assert unneeded == []
    assert any(told for _, told in asked), "the whole rule is not needed"


@pytest.mark.parametrize("index", range(len(FAILURE_RULES)), ids=lambda index: FAILURE_RULES[index].name)
def test_every_part_of_a_rule_on_failures_is_needed(index: int) -> None:
    rule = FAILURE_RULES[index]
    asked = [
        (failure.error, told)
        for failure in FAILURES
        if (told := _told_from(FAILURE_RULES, index, failure.rule)) is not None
    ]

    def differs(mutant: FailureRule) -> bool:
        return any(
            (mutant.match({*_classes(error), *_numbers(error)}, str(error)) is not None) != told
            for error, told in asked
        )

    assert not differs(rule)
    conditions = ["error", "text", "pattern"]
    unneeded = [what for what, mutant in _mutants(rule, conditions) if not differs(FailureRule(**mutant))]
    assert unneeded == []
    assert any(told for _, told in asked), "the whole rule is not needed"


@pytest.mark.parametrize("status", LIKE_200)
@pytest.mark.parametrize("url", [API, PDS, SOCRATA, SITE])
def test_json_as_asked_for_costs_no_look_at_its_words_and_next_to_no_rules(url: str, status: int) -> None:
    answer = Exchange(Outcome.OK, "", status, '{"feed":[%s{}]}' % ("{}," * 10_000), JSON, url=url).answer()
    book = RuleBook(RULES)
    assert book.first(answer) is None
    ((key, about),) = book._about.items()
    assert {"page", "text", "title"}.isdisjoint(vars(answer))
    tried = [rule.name for rule in about]
    assert len(tried) <= 2, f"{key}: {tried}"


@pytest.mark.parametrize("status", [200, 403, 500])
@pytest.mark.parametrize("start", ["<", "<script>", "<!--", "<title>", "&#", "</", "<style", '{"error":', "//@"])
def test_hostile_page_is_judged_in_linear_time(start: str, status: int) -> None:
    """A pattern that is not linear would take minutes for these."""
    response = Response(SITE, status, {"Content-Type": "text/html"}, start.encode() * 200_000)
    assert classify(response).outcome in Outcome


def test_order_of_the_rules_is_as_written() -> None:
    """A general rule stands after the special ones: the last ones know nothing but a status or a class."""
    assert [rule.name for rule in RULES][-2:] == ["server-error", "bad-request"]
    assert FAILURE_RULES[-1].name == "ignored"
