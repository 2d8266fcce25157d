"""The facts of a run, read from its stats. Monitors, history, report and alerts use only this summary."""

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
"""Finish reasons of runs that are not judged: a person or the job ended them, or they never began."""

HARMLESS_OUTCOMES = frozenset(str(outcome) for outcome, policy in POLICIES.items() if not policy.error)
"""Outcomes that describe the requested page and are not errors."""

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
    """Number of requests to a host that ended with an outcome."""

    outcome: str
    host: str
    times: int
    said: str
    """A short form of the host's last response; empty if unknown."""


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Counts of a run, by kind, outcome, state or reason. Counts without a stat are empty."""

    finish_reason: str
    interrupted: bool
    """True if a person, a limit or the spider itself ended the run, so that its counts say nothing about the site."""
    cause: str
    """The reason of an early end, for people; empty if unknown."""
    parsed: dict[str, int]
    stored: dict[str, int]
    unstored: dict[str, int]
    """Records of a project without harvester's pipelines that passed its own pipelines."""
    rejected: dict[str, int]
    reject_reasons: dict[str, int]
    """`kind/reason` -> number of records."""
    outcomes: dict[str, int]
    errors: list[HostErrors]
    """Errors, the most frequent first."""
    unclassified: int
    new_labels: list[str]
    """New labels on pages with an otherwise known layout."""
    in_doubt: list[str]
    """Parcels whose records may be wrong: stored before a change in the meaning of the site's pages was detected."""
    unread_labels: dict[str, int]
    """Label that no field was read from -> number of pages or rows with it, the most frequent first."""
    dead: dict[str, int]
    """Outcome -> number of requests that the frontier has given up."""
    refused: int
    """Number of requests with values that cannot be serialized, so they could not be queued."""
    coverage: dict[str, dict[str, float]]
    """Kind -> field -> share (0 to 1) of the stored records that have it."""
    job_records: int | None
    """Number of records for the items of the run's job, over all runs. None: the run has no job."""
    items: dict[str, dict[str, int]]
    """Kind of job item -> state -> number of items."""
    item_failures: dict[str, dict[str, int]]
    """Kind of job item -> reason of failure -> number of items."""
    excerpt: dict[str, Any]
    """Some of Scrapy's own stats."""

    @classmethod
    def from_stats(cls, stats: Mapping[str, Any]) -> "RunSummary":
        """Returns the summary of a run with these stats."""
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
        """Returns the outcomes that count as errors, with their numbers."""
        return {name: count for name, count in self.outcomes.items() if name not in HARMLESS_OUTCOMES}

    def failed_items(self, kind: str) -> dict[str, int]:
        """Returns the reasons of failed items of the kind, with their numbers.

        Items that no longer exist on the site are left out.
        """
        reasons = dict(self.item_failures[kind])
        unexplained = self.items[kind].get(ItemState.FAILED, 0) - sum(reasons.values())
        if unexplained > 0:
            reasons["no reason given"] = unexplained
        return {reason: count for reason, count in reasons.items() if not _is_harmless(reason)}


def exit_code(stats: Mapping[str, Any], otherwise: int) -> int:
    """Returns the exit code of the run: from its own cause, an interruption, or the given default."""
    if stated := stats.get(EXIT_CODE):
        return int(stated)
    if stats.get("finish_reason") in INTERRUPTED_REASONS and not closed_as_asked(stats):
        return TERMINATED if stats.get(SIGNAL) == SIGTERM else INTERRUPTED
    return otherwise


def _is_harmless(reason: str) -> bool:
    """Returns True for a harmless reason.

    It starts with the outcome (`gone: ...`), or with the stage and outcome (`posts: gone: ...`).
    """
    return any(part.strip() in HARMLESS_OUTCOMES for part in reason.split(":")[:2])


def _below(stats: Mapping[str, Any], prefix: str) -> dict[str, int]:
    """Returns the whole numbers below `prefix`, by the rest of their path."""
    return {
        name[len(prefix) :]: value
        for name, value in stats.items()
        if name.startswith(prefix) and isinstance(value, int)
    }


def _counts(stats: Mapping[str, Any], prefix: str, depth: int = 1) -> dict[str, int]:
    """Returns the whole numbers exactly `depth` segments below `prefix`."""
    return {path: value for path, value in _below(stats, prefix).items() if path.count("/") == depth - 1}


def _coverage(stats: Mapping[str, Any], stored: Mapping[str, int]) -> dict[str, dict[str, float]]:
    coverage: dict[str, dict[str, float]] = {}
    for path, count in _counts(stats, "harvester/coverage/", depth=2).items():
        kind, field = path.split("/")
        if stored.get(kind):
            coverage.setdefault(kind, {})[field] = min(1.0, count / stored[kind])
    return coverage
