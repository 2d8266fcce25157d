"""Exceptions that reach an errback, and the verdict in them."""

from scrapy.exceptions import IgnoreRequest
from scrapy.spidermiddlewares.httperror import HttpError

from harvester.outcomes.classifier import classify, classify_exception
from harvester.outcomes.outcome import Verdict


class RequestFailed(IgnoreRequest):
    """Raised by harvester's middlewares for a request that harvester itself refuses, as for robots.txt or a quota."""

    def __init__(self, verdict: Verdict, tries: int) -> None:
        super().__init__(verdict.outcome, verdict.reason)
        self.verdict = verdict
        self.tries = tries

    def __str__(self) -> str:
        tried = f" ({self.tries} tries)" if self.tries > 1 else ""
        return f"{self.verdict.outcome}: {self.verdict.reason}{tried}" if self.verdict.reason else self.verdict.outcome


def give_verdict(error: BaseException, verdict: Verdict, tries: int) -> None:
    """Adds the result of the request to an exception of Scrapy or of other code: `verdict` and `tries`."""
    error.verdict, error.tries = verdict, tries  # type: ignore[attr-defined]


def verdict_of(error: BaseException) -> Verdict:
    """Returns the verdict on a request whose errback was called."""
    verdict = getattr(error, "verdict", None)
    if isinstance(verdict, Verdict):
        return verdict
    if isinstance(error, HttpError):  # raised by other code
        return classify(error.response, error.response.request)
    return classify_exception(error)
