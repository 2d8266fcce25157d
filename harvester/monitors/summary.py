"""What a run did, read from its stats. Monitors, history, report and alerts look at this and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from signal import SIGTERM
from typing import Any, NamedTuple

from harvester.dashboard.progress import UNSTORED, records_stored, two_below, unread_labels
from harvester.exceptions import INTERRUPTED, TERMINATED
from harvester.jobs.documents import ItemState
from harvester.masking import mask
from harvester.outcomes import POLICIES
from harvester.shutdown import CAUSE, EXIT_CODE, SIGNAL, STOPPED_AT_ONCE, closed_as_asked

INTERRUPTED_REASONS = frozenset({"shutdown", STOPPED_AT_ONCE, "usage_error", "paused", "cancelled"})
"""Finish reasons of runs that are not judged: a person ended them, or their job, or they were never begun."""

HARMLESS_OUTCOMES = frozenset(str(outcome) for outcome, policy in POLICIES.items() if not policy.error)
"""Outcomes that say something about what was looked for, and nothing bad about the way there."""

_EXCERPT = (
    "downloader/request_count",
    "downloader/response_count",
    "downloader/response_bytes",
    "elapsed_time_seconds",
    "log_count/ERROR",
    "log_count/WARNING",
    "memusage/max",
)


class HostErrors(NamedTuple):
    """How often one host ended requests in one outcome."""

    outcome: str
    host: str
    times: int
    said: str
    """What the host answered last, in short; empty when nobody wrote it down."""


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Counts of one run, by kind, outcome, state or reason. What was never counted is empty."""

    finish_reason: str
    interrupted: bool
    """Whether a person, a limit or the spider itself ended the run, so that its counts say nothing about the site."""
    cause: str
    """Why it ended early, for people; empty when nobody said it."""
    parsed: dict[str, int]
    stored: dict[str, int]
    unstored: dict[str, int]
    """Of a project without harvester's pipelines: passed those that it has."""
    rejected: dict[str, int]
    reject_reasons: dict[str, int]
    """`kind/reason` -> records."""
    outcomes: dict[str, int]
    errors: list[HostErrors]
    """The most frequent first."""
    unclassified: int
    new_labels: list[str]
    """Of pages of a layout that is known but for them."""
    in_doubt: list[str]
    """Parcels whose records may be wrong: stored before the site was found to have changed what its pages mean."""
    unread_labels: dict[str, int]
    """Label that no field was read from -> pages or rows that have it, the most frequent first."""
    dead: dict[str, int]
    """Outcome -> requests that the frontier has given up."""
    refused: int
    """Requests that could not be queued since the spider gave them what cannot be kept."""
    coverage: dict[str, dict[str, float]]
    """Kind -> field -> share (0 to 1) of the stored records that had it."""
    job_records: int | None
    """Of the items of the run's job, whichever runs worked at them. None: it had no job."""
    items: dict[str, dict[str, int]]
    """Kind of job item -> state -> items."""
    item_failures: dict[str, dict[str, int]]
    """Kind of job item -> reason why items failed -> items."""
    excerpt: dict[str, Any]
    """Some of Scrapy's own stats."""

    @classmethod
    def from_stats(cls, stats: Mapping[str, Any]) -> "RunSummary":
        """The summary of a run whose stats these are."""
        stored = records_stored(stats)
        items = two_below(stats, "harvester/items")
        errors = []
        for path, count in _counts(stats, "harvester/errors/", depth=2).items():
            outcome, host = path.split("/")
            errors.append(HostErrors(outcome, host, count, str(stats.get(f"harvester/said/{path}", ""))))
        return cls(
            finish_reason=str(stats.get("finish_reason", "")),
            interrupted=stats.get("finish_reason") in INTERRUPTED_REASONS or closed_as_asked(stats),
            cause=mask(str(stats.get(CAUSE, ""))),
            parsed=_counts(stats, "harvester/records/parsed/"),
            stored=stored,
            unstored=_counts(stats, f"{UNSTORED}/"),
            rejected=_counts(stats, "harvester/records/rejected/"),
            reject_reasons=_counts(stats, "harvester/records/rejected/", depth=2),
            outcomes=_counts(stats, "harvester/outcomes/"),
            errors=sorted(errors, key=lambda error: -error.times),
            unclassified=int(stats.get("harvester/unclassified", 0)),
            new_labels=[mask(label) for label in stats.get("harvester/new_labels", [])],
            in_doubt=[mask(parcel) for parcel in stats.get("harvester/counties/stored_in_doubt", [])],
            unread_labels=unread_labels(stats),
            dead=_counts(stats, "harvester/frontier/dead/"),
            refused=int(stats.get("harvester/frontier/unserialisable", 0)),
            coverage=_coverage(stats, _counts(stats, "harvester/records/stored/")),
            job_records=stats.get("harvester/job_records"),
            items=items,
            item_failures={kind: _below(stats, f"harvester/reasons/{kind}/{ItemState.FAILED}/") for kind in items},
            excerpt={name: stats[name] for name in _EXCERPT if name in stats},
        )

    def failed_outcomes(self) -> dict[str, int]:
        """Outcomes that count as errors, with how often they came."""
        return {name: count for name, count in self.outcomes.items() if name not in HARMLESS_OUTCOMES}

    def failed_items(self, kind: str) -> dict[str, int]:
        """Reasons why items of the kind failed, with how many; without those that are simply no longer there."""
        reasons = dict(self.item_failures[kind])
        unexplained = self.items[kind].get(ItemState.FAILED, 0) - sum(reasons.values())
        if unexplained > 0:
            reasons["no reason given"] = unexplained
        return {reason: count for reason, count in reasons.items() if not _is_harmless(reason)}


def exit_code(stats: Mapping[str, Any], otherwise: int) -> int:
    """What the run says of itself: the cause it named, an interruption, or its monitors' verdict."""
    if stated := stats.get(EXIT_CODE):
        return int(stated)
    if stats.get("finish_reason") in INTERRUPTED_REASONS and not closed_as_asked(stats):
        return TERMINATED if stats.get(SIGNAL) == SIGTERM else INTERRUPTED
    return otherwise


def _is_harmless(reason: str) -> bool:
    """A reason begins with its outcome (`gone: ...`), or with what was asked and the outcome (`posts: gone: ...`)."""
    return any(part.strip() in HARMLESS_OUTCOMES for part in reason.split(":")[:2])


def _below(stats: Mapping[str, Any], prefix: str) -> dict[str, int]:
    """The whole numbers below `prefix`, by the rest of their path."""
    return {
        name[len(prefix) :]: value
        for name, value in stats.items()
        if name.startswith(prefix) and isinstance(value, int)
    }


def _counts(stats: Mapping[str, Any], prefix: str, depth: int = 1) -> dict[str, int]:
    """Those of them that are `depth` segments below."""
    return {path: value for path, value in _below(stats, prefix).items() if path.count("/") == depth - 1}


def _coverage(stats: Mapping[str, Any], stored: Mapping[str, int]) -> dict[str, dict[str, float]]:
    coverage: dict[str, dict[str, float]] = {}
    for path, count in _counts(stats, "harvester/coverage/", depth=2).items():
        kind, field = path.split("/")
        if stored.get(kind):
            coverage.setdefault(kind, {})[field] = min(1.0, count / stored[kind])
    return coverage
