"""Adds the outcomes and records of requests to the breakers."""

from typing import Any

from scrapy import Request

from harvester.breaker.breakers import Breakers
from harvester.internal_meta import ATTEMPTS, ITEMS, NO_PROOF, PROBE, STEP, TIER, TIER_PROBE
from harvester.items import Batch, Record
from harvester.outcomes import Outcome, Verdict
from harvester.sites import load_sites, policy_of

UNREACHED = ("dns", "no-connection")
"""Rules for failures to reach a host."""


def add_outcome(breakers: Breakers, request: Request, verdict: Verdict) -> None:
    """Adds the outcome of an attempt to the breakers of its site and of its proxy tier."""
    if verdict.outcome is Outcome.LOCAL:
        return
    site = load_sites().of(request.url)
    policy = policy_of(site, verdict.outcome)
    probes, tier = (request.meta.get(PROBE, 0), request.meta.pop(TIER_PROBE, 0)), request.meta.get(TIER, "")
    is_step = bool(request.meta.get(STEP) or request.meta.get(NO_PROOF))
    kind = {"is_new": not _was_tried(request), "is_step": is_step}
    breakers.add_try(site, verdict, policy, probes[0], tier, probes[1], **kind)


def add_item(breakers: Breakers, request: Request, item: Any) -> None:
    """Adds the records of an item to the breaker of the site that its page came from."""
    if not isinstance(item, (Batch, Record)):
        return
    site, records = load_sites().of(request.url), item.records if isinstance(item, Batch) else [item]
    breakers.add_records(site, records, request.meta.get(PROBE, 0))
    if request.meta.get(STEP) and records and not request.meta.get(NO_PROOF):
        breakers.add_read(site)


def _was_tried(request: Request) -> bool:
    """Returns True if this attempt at its item, or an earlier one, has already sent the request."""
    return bool(request.meta.get(ATTEMPTS)) or any(attempt > 1 for _, attempt in request.meta.get(ITEMS, ()))
