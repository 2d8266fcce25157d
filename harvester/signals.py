"""Scrapy signals of harvester's own."""

outcome_told = object()
"""What became of one try of a request, told once by the outcome middleware before anything follows from it.

Of a request of the frontier `ok` is told when its callback has come to its end: a callback or parser that raises
PageFailed or ParseError is told of instead, with the outcome it names. A try that the end of the run cuts off before
that is told of by nobody; it is made again.

Receivers get `request`, `verdict` (outcomes.Verdict), and `response` (None when there was no answer). They must not
be coroutines, and must be quick: one is told of every request. They decide nothing: see fetch/steps.py for what does.
"""
