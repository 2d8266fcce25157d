"""Returns a request that cannot be sent now to the frontier, to wait there."""

from scrapy import Request

from harvester.internal_meta import NOT_BEFORE, RETRY_REASON
from harvester.outcomes import Outcome


def wait_in_frontier(request: Request, until: float, outcome: Outcome, reason: str) -> Request:
    """Returns a copy of the request that waits in the frontier until then (epoch seconds), without spending an
    attempt.

    Outcome and reason explain to people why it waits.
    """
    again = request.replace(dont_filter=True)
    again.meta[NOT_BEFORE] = until
    again.meta[RETRY_REASON] = (outcome, reason, False)
    return again
