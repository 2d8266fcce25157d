"""Steps judge in the order of their list, whichever of them is made first."""

from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.fetch.decide import Advice
from harvester.fetch.steps import Judge, JudgingStep, get_steps
from harvester.outcomes import Outcome, Verdict

REQUEST, VERDICT = Request("https://a.example/"), Verdict(Outcome.BLOCKED, "no")


def test_steps_hear_in_their_order_and_each_advice_is_returned() -> None:
    heard: list[JudgingStep] = []

    def judge_of(step: JudgingStep, advice: Advice | None) -> Judge:
        def judge(request: Request, verdict: Verdict, response: Response | None) -> Advice | None:
            heard.append(step)
            return advice

        return judge

    steps = get_steps(get_crawler())
    steps.add(JudgingStep.QUOTA, judge_of(JudgingStep.QUOTA, Advice.NONE))
    steps.add(JudgingStep.BREAKER, judge_of(JudgingStep.BREAKER, None))
    steps.add(JudgingStep.PROXY, judge_of(JudgingStep.PROXY, Advice.COUNTED))
    assert steps.judge(REQUEST, VERDICT, None) == [Advice.COUNTED, Advice.NONE]
    assert heard == [JudgingStep.BREAKER, JudgingStep.PROXY, JudgingStep.QUOTA]


def test_the_fault_of_a_step_costs_no_other_its_say() -> None:
    def broken(request: Request, verdict: Verdict, response: Response | None) -> Advice | None:
        raise KeyError("of the step")

    steps = get_steps(get_crawler())
    steps.add(JudgingStep.BREAKER, broken)
    steps.add(JudgingStep.PROXY, lambda request, verdict, response: Advice.FREE)
    assert steps.judge(REQUEST, VERDICT, None) == [Advice.FREE]


def test_each_crawl_has_steps_of_its_own() -> None:
    one, other = get_crawler(), get_crawler()
    assert get_steps(one) is get_steps(one)
    assert get_steps(one) is not get_steps(other)
