"""The outcome of a request: one enum, one classifier, and one table of consequences."""

from harvester.outcomes.classifier import BAD_CURSOR, classify, classify_exception, classify_page
from harvester.outcomes.failed import RequestFailed, give_verdict, verdict_of
from harvester.outcomes.outcome import OK, Outcome, Verdict
from harvester.outcomes.policies import POLICIES, Policy, get_policy

__all__ = [
    "BAD_CURSOR",
    "OK",
    "POLICIES",
    "Outcome",
    "Policy",
    "RequestFailed",
    "Verdict",
    "classify",
    "classify_exception",
    "classify_page",
    "get_policy",
    "give_verdict",
    "verdict_of",
]
