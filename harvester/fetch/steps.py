"""The steps that hear of each attempt's outcome, in their order. Each may advise what is to follow."""

import logging
from enum import IntEnum, auto
from typing import Protocol

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.components import get_component
from harvester.fetch.decide import Advice
from harvester.outcomes import Verdict

logger = logging.getLogger(__name__)


class JudgingStep(IntEnum):
    """Steps that judge, in the order in which they hear of an outcome."""

    BREAKER = auto()
    CONDITIONAL = auto()
    IDENTITY = auto()
    PROXY = auto()
    QUOTA = auto()


class Judge(Protocol):
    """Judges a site, an identity or a proxy by the outcome of an attempt, and by nothing else."""

    def __call__(self, request: Request, verdict: Verdict, response: Response | None) -> Advice | None:
        """Returns the advice for the next attempt, None without any. `response`: None when there was no answer."""


class JudgingSteps:
    """The steps of one crawl that judge."""

    def __init__(self) -> None:
        self._judges: dict[JudgingStep, Judge] = {}

    def add(self, step: JudgingStep, judge: Judge) -> None:
        """Has a step judge each attempt from now on. It takes the place of an earlier judge of the same step."""
        self._judges[step] = judge
        self._judges = dict(sorted(self._judges.items()))

    def judge(self, request: Request, verdict: Verdict, response: Response | None) -> list[Advice]:
        """Returns the advice of all steps. The fault of one step is logged, and costs neither the others nor a page."""
        advices = []
        for step, judge in self._judges.items():
            try:
                advice = judge(request, verdict, response)
            except Exception:
                logger.exception("The step %s could not judge %s", step.name.lower(), request)
            else:
                if advice:
                    advices.append(advice)
        return advices


def get_steps(crawler: Crawler) -> JudgingSteps:
    """Returns the steps of the crawl."""
    return get_component(crawler, JudgingSteps)
