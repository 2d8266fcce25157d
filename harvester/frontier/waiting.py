"""How a request of the frontier that cannot be sent now goes back and waits there."""

from scrapy import Request

from harvester.meta import NOT_BEFORE, RETRY_REASON
from harvester.outcomes import Outcome


def wait_in_frontier(request: Request, until: float, outcome: Outcome, reason: str) -> Request:
    """The request again, to wait in the frontier until then (seconds of the epoch). No attempt of it is spent.

    Outcome and reason say to people why it waits.
    """
    again = request.replace(dont_filter=True)
    again.meta[NOT_BEFORE] = until
    again.meta[RETRY_REASON] = (outcome, reason, False)
    return again
