"""Steps that judge an attempt by the outcome, in order. Each may give advice on the next attempt."""

import logging
from enum import IntEnum, auto
from typing import NamedTuple, Protocol

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.components import get_component
from harvester.fetch.decide import Advice
from harvester.outcomes import Outcome, Verdict

logger = logging.getLogger(__name__)


class JudgingStep(IntEnum):
    """Steps that judge, in the order of their calls."""

    BREAKER = auto()
    CONDITIONAL = auto()
    IDENTITY = auto()
    PROXY = auto()
    QUOTA = auto()


class Wait(NamedTuple):
    """The answer of a step that a request cannot be sent now."""

    until: float
    """Epoch seconds."""
    outcome: Outcome
    """The outcome that explains to people why it waits."""
    reason: str


class Judge(Protocol):
    """Judges a site, an identity or a proxy only by the outcome of an attempt."""

    def __call__(self, request: Request, verdict: Verdict, response: Response | None) -> Advice | None:
        """Returns the advice for the next attempt, or None. `response` is None for an attempt without one."""


class JudgingSteps:
    """The judging steps of a crawl."""

    def __init__(self) -> None:
        self._judges: dict[JudgingStep, Judge] = {}

    def add(self, step: JudgingStep, judge: Judge) -> None:
        """Registers the judge of a step. It replaces an earlier judge of the same step."""
        self._judges[step] = judge
        self._judges = dict(sorted(self._judges.items()))

    def judge(self, request: Request, verdict: Verdict, response: Response | None) -> list[Advice]:
        """Returns the advice of all steps. A step that fails is logged, and the other steps are still called."""
        advices = []
        for step, judge in self._judges.items():
            try:
                advice = judge(request, verdict, response)
            except Exception:  # an attempt is decided by its outcome then, as without this step
                logger.exception("The step %s could not judge %s", step.name.lower(), request)
            else:
                if advice:
                    advices.append(advice)
        return advices


def get_steps(crawler: Crawler) -> JudgingSteps:
    """Returns the steps of the crawl."""
    return get_component(crawler, JudgingSteps)
