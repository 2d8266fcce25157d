"""Scrapy signals of harvester's own."""

outcome_told = object()
"""What became of one try of a request, told once by the outcome middleware before anything follows from it.

Receivers get `request`, `verdict` (outcomes.Verdict), and `response` (None when there was no answer). They must not
be coroutines, and must be quick: one is told of every request. All that judges a site, an identity or a proxy by its
answers listens here, and reads the verdict and nothing else.
"""
