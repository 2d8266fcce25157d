"""Scrapy signals of harvester's own, and what their receivers answer."""

from enum import StrEnum

outcome_told = object()
"""What became of one try of a request, told once by the outcome middleware before anything follows from it.

Of a request of the frontier `ok` is told when its callback has come to its end: a callback or parser that raises
PageFailed or ParseError is told of instead, with the outcome it names. A try that the end of the run cuts off before
that is told of by nobody; it is made again.

Receivers get `request`, `verdict` (outcomes.Verdict), and `response` (None when there was no answer). They must not
be coroutines, and must be quick: one is told of every request. All that judges a site, an identity or a proxy by its
answers listens here, and reads the verdict and nothing else.
"""


class NextTry(StrEnum):
    """Says otherwise than the outcome's policy whether there is another try."""

    COUNTED = "counted"
    """There is, by a way that is not tried yet."""
    FREE = "free"
    """There is, and this one does not count: the site knows nothing of it."""
    NONE = "none"
    """There is not: it would come to the same."""
