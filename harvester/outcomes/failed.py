"""What an errback is given, and the verdict in it."""

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError

from harvester.outcomes.classifier import classify_exception
from harvester.outcomes.outcome import Verdict


class RequestFailed(IgnoreRequest):
    """A request that is given up. Raised to the errback by the outcome middleware."""

    def __init__(self, verdict: Verdict, tries: int) -> None:
        super().__init__(verdict.outcome, verdict.reason)
        self.verdict = verdict
        self.tries = tries

    def __str__(self) -> str:
        tried = f" ({self.tries} tries)" if self.tries > 1 else ""
        return f"{self.verdict.outcome}: {self.verdict.reason}{tried}" if self.verdict.reason else self.verdict.outcome


class AnswerRefused(RequestFailed, HttpError):
    """The same of a request that was answered, with the `response`, as errbacks know it from Scrapy."""

    def __init__(self, verdict: Verdict, tries: int, response: Response) -> None:
        RequestFailed.__init__(self, verdict, tries)
        self.response = response


def verdict_of(error: BaseException) -> Verdict:
    """The verdict on a request whose errback was called."""
    return error.verdict if isinstance(error, RequestFailed) else classify_exception(error)
