"""Chains of requests that stay in one session."""

from scrapy import Request
from scrapy.crawler import Crawler

from harvester.identities.crawl_identities import get_identities
from harvester.internal_meta import ASKED_AS, AVOID_IDENTITY, CHAIN_BEGUN, SENT_OUTDATED, SESSION_RENEWALS
from harvester.meta import SESSION_CHAIN

OF_ONE_REQUEST = (CHAIN_BEGUN, ASKED_AS, SESSION_RENEWALS, AVOID_IDENTITY, SENT_OUTDATED)
"""Keys of a request's session, which a follow-up request must not copy."""


def end_chain(crawler: Crawler, request: Request) -> None:
    """Marks a request as its chain's last one, when only the response shows that."""
    if identities := get_identities(crawler):
        identities.end_chain(request)


def stay_in_session(follower: Request, request: Request) -> None:
    """Sends a request in the session of an earlier request in its chain. Errbacks call this themselves."""
    chain, asked_as = request.meta.get(SESSION_CHAIN), request.meta.get(ASKED_AS)
    if asked_as and chain and follower.meta.get(SESSION_CHAIN) == chain:
        follower.meta[CHAIN_BEGUN] = tuple(asked_as[:2])
        follower.priority = max(follower.priority, request.priority + 1)  # before chains that have not begun
