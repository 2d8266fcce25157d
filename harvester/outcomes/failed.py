"""What an errback is given, and the verdict in it."""

from scrapy.exceptions import IgnoreRequest
from scrapy.spidermiddlewares.httperror import HttpError

from harvester.outcomes.classifier import classify, classify_exception
from harvester.outcomes.outcome import Verdict


class RequestFailed(IgnoreRequest):
    """A request that harvester itself refuses, for robots.txt or a quota maybe. Raised by its middlewares."""

    def __init__(self, verdict: Verdict, tries: int) -> None:
        super().__init__(verdict.outcome, verdict.reason)
        self.verdict = verdict
        self.tries = tries

    def __str__(self) -> str:
        tried = f" ({self.tries} tries)" if self.tries > 1 else ""
        return f"{self.verdict.outcome}: {self.verdict.reason}{tried}" if self.verdict.reason else self.verdict.outcome


def give_verdict(error: BaseException, verdict: Verdict, tries: int) -> None:
    """Writes into an exception of Scrapy, or of whoever raised it, what the request came to: `verdict` and `tries`."""
    error.verdict, error.tries = verdict, tries  # type: ignore[attr-defined]


def verdict_of(error: BaseException) -> Verdict:
    """The verdict on a request whose errback was called."""
    verdict = getattr(error, "verdict", None)
    if isinstance(verdict, Verdict):
        return verdict
    if isinstance(error, HttpError):  # somebody else's
        return classify(error.response, error.response.request)
    return classify_exception(error)
