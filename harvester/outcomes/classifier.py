"""Classifies responses, exceptions, and the exceptions that callbacks raise about a page."""

import errno
import re
import socket
from collections.abc import Iterator

from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import LocalFault, PageFailed
from harvester.outcomes.answer import LIKE_200, Answer
from harvester.outcomes.evidence import excerpt
from harvester.outcomes.outcome import OK, Outcome, Verdict
from harvester.outcomes.rules import NO_RULES, RuleBook, SiteRules, common_book, common_rules

BAD_CURSOR = "bad cursor"
"""Reason of a refused cursor. The chain of pages must restart."""
UNKNOWN_STATUS, UNKNOWN_EXCEPTION, BY_CALLBACK = "unknown-status", "unknown-exception", "callback"
"""Stand in place of a rule's name: no rule matched, or a callback or parser raised the outcome."""
_MOST_CAUSES = 5
_FINE = (*LIKE_200, 206)

_ssl = re.compile(r" ssl:(default|True|False|None|<[^>]*>) ")
"""Part of aiohttp's messages that has no useful information."""


def classify(response: Response, request: Request | None = None, own: SiteRules = NO_RULES) -> Verdict:
    """Returns the outcome of a response; the object OK if nothing is wrong. The site's own rules are tried first."""
    books = (own.book, common_book()) if own.book else (common_book(),)
    return judge(Answer(response, request, own.page_ending), *books)


def judge(answer: Answer, *books: RuleBook) -> Verdict:
    """Returns the outcome by the given rules."""
    for book in books:
        if (rule := book.first(answer)) is not None:
            if rule.outcome is Outcome.OK:
                return OK
            return _verdict(answer, rule.outcome, rule.reason, rule.name, known=rule.known)
    if answer.status in _FINE:
        return OK
    return _verdict(answer, Outcome.INVALID, "{said}", UNKNOWN_STATUS, known=False)


def _verdict(answer: Answer, outcome: Outcome, reason: str, rule: str, *, known: bool) -> Verdict:
    name, message = answer.error
    said = f"HTTP {answer.status} {name}".strip() + (f": {message}" if message else "")
    head = message.partition(": ")[0]  # without the name of the missing thing, so that one reason is counted as one
    words = reason.format(said=said, name=name or said, head=head or said, status=answer.status)
    return Verdict(outcome, excerpt(words), known, rule, answer.status, answer.excerpt())


def classify_exception(error: BaseException) -> Verdict:
    """Returns the outcome of a request without a response."""
    error = LocalFault.behind(error) or error
    said = excerpt(_ssl.sub(" ", str(error))) or type(error).__name__
    classes = {*_classes(error), *_numbers(error)}
    for rule in common_rules().failures:
        if (groups := rule.match(classes, said)) is not None:
            return Verdict(rule.outcome, rule.reason.format(said=said, **groups), rule.known, rule.name)
    return Verdict(Outcome.INVALID, f"{type(error).__name__}: {said}", False, UNKNOWN_EXCEPTION)


def _classes(error: BaseException) -> Iterator[str]:
    """Yields the class names of an exception and of the exceptions that Scrapy's download handlers raised it from.

    A name looks like `scrapy.IgnoreRequest`.
    """
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield from (f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in type(cause).__mro__)
        cause = cause.__cause__ if type(cause).__module__.startswith("scrapy.") else None


def _numbers(error: BaseException) -> Iterator[str]:
    """Yields the names of the system errors that caused the exception: `errno.EMFILE`."""
    left = [error]
    for _ in range(_MOST_CAUSES * 2):
        if not left:
            return
        cause = left.pop()
        if isinstance(cause, OSError) and not isinstance(cause, socket.gaierror):
            yield f"errno.{errno.errorcode.get(cause.errno or 0, '')}"
        if isinstance(cause, BaseExceptionGroup):
            left += cause.exceptions[:1]
        if cause.__cause__ is not None:
            left.append(cause.__cause__)


def classify_page(response: Response, error: Exception) -> Verdict:
    """Returns the outcome of a response whose callback raised PageFailed or ParseError."""
    outcome = error.outcome if isinstance(error, PageFailed) else Outcome.LAYOUT_CHANGED
    reason, known = excerpt(str(error)) or type(error).__name__, outcome in set(Outcome)
    if not known:
        reason = f"a callback names the outcome {outcome!r}, which there is not: {reason}"
    told = Outcome(outcome) if known else Outcome.INVALID
    return Verdict(told, reason, known, BY_CALLBACK, response.status, Answer(response).excerpt())
