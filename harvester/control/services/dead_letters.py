"""Dead letters, grouped by reason, and requeueing them: never more than a person has seen."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from harvester.config import Config
from harvester.control.services.action_result import ActionResult
from harvester.control.services.spiders import spiders
from harvester.exceptions import JobConflict, UsageError
from harvester.formatting import counted, pattern_of
from harvester.frontier import operations
from harvester.frontier.messages import DeadLetter
from harvester.jobs.service import JobService
from harvester.masking import mask

MOST_LOOKED_AT = 20_000
"""Maximum number of dead letters of a spider to group: the latest."""
MOST_GROUPS = 200
MOST_LETTERS = 500
"""Maximum number of dead letters in a response."""
MOST_IDS = 1000
"""Maximum number of ids in a request."""
MOST_SAMPLES = 3
NO_WORDS = "-"
"""The pattern of reasons without words: empty reasons, and reasons like `'name'`."""
MOST_TEXT = 1000
"""Maximum number of characters of a URL or a reason."""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """What happened to a request."""

    at: datetime
    event: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Letter:
    """A request that was given up."""

    id: str
    spider: str
    url: str
    outcome: str
    reason: str
    attempts: int
    deliveries: int
    """Number of workers that were lost while they held the request."""
    at: datetime
    history: list[HistoryLine]


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters with one outcome, and reasons that differ in numbers and names only."""

    spider: str
    outcome: str
    pattern: str
    """The pattern of the reasons. Together with spider and outcome it identifies the group."""
    letters: int
    first_at: datetime
    last_at: datetime
    samples: list[Letter]
    """The latest letters of the group."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The largest first."""

    groups: list[DeadLetterGroup]
    more: bool
    by_outcome: dict[str, int]
    """Number of all dead letters by outcome."""
    looked_at: int
    """Number of grouped dead letters: the latest."""


@dataclass(frozen=True, slots=True)
class RequeueSelection:
    """A selection of dead letters to requeue: by ids, by group, or by outcome."""

    ids: list[str] = field(default_factory=list)
    outcome: str = ""
    pattern: str = ""
    expect: int | None = None
    """Number of dead letters when a person looked. Needed unless ids are given."""


class DeadLetters:
    """The dead letters of all spiders of the project."""

    def __init__(self, service: JobService) -> None:
        self._config = service.config

    async def groups(self, spider: str = "") -> Groups:
        """Returns the groups of a spider, or of all spiders. Raises UnknownJob, ServiceError."""
        found: dict[tuple[str, str, str], list[Letter]] = {}
        numbers: dict[tuple[str, str, str], list[float]] = {}
        by_outcome: dict[str, int] = {}
        looked_at = 0
        depths = await operations.depths(self._config, await spiders(spider))
        for name, depth in depths.items():
            for outcome, number in depth.dead_by_outcome.items():
                by_outcome[outcome] = by_outcome.get(outcome, 0) + number
            if depth.dead:
                async for letter in _latest(self._config, name):
                    looked_at += 1
                    key = name, letter.outcome, _pattern(letter)
                    numbers.setdefault(key, []).append(letter.at)
                    samples = found.setdefault(key, [])
                    if len(samples) < MOST_SAMPLES:
                        samples.append(_letter(name, letter))
        largest = sorted(numbers, key=lambda key: (-len(numbers[key]), key))
        groups = [
            DeadLetterGroup(*key, len(numbers[key]), _time(min(numbers[key])), _time(max(numbers[key])), found[key])
            for key in largest[:MOST_GROUPS]
        ]
        return Groups(groups, len(largest) > MOST_GROUPS, by_outcome, looked_at)

    async def letters(
        self, spider: str, outcome: str = "", pattern: str | None = None, most: int = 100
    ) -> list[Letter]:
        """Returns dead letters, the latest first: all, or only a group. Raises UnknownJob, ServiceError."""
        await spiders(spider)
        letters: list[Letter] = []
        async for letter in _latest(self._config, spider):
            if _is_of(letter, outcome, pattern):
                letters.append(_letter(spider, letter))
            if len(letters) >= min(most, MOST_LETTERS):
                break
        return letters

    async def requeue(self, spider: str, wanted: RequeueSelection) -> ActionResult:
        """Requeues dead letters and keeps their attempts. Ids that are unknown or already requeued are not counted.

        Raises JobConflict when more letters match than expected, UsageError, UnknownJob, ServiceError.
        """
        await spiders(spider)
        ids = wanted.ids or await self._ids_of(spider, wanted)
        if len(ids) > MOST_IDS and wanted.ids:
            raise UsageError(f"ids: give at most {MOST_IDS:,}.")
        number = await operations.replay(self._config, spider, ids) if ids else 0
        return ActionResult(number, f"{counted(number, 'dead letter')} of {spider} requeued.")

    async def _ids_of(self, spider: str, wanted: RequeueSelection) -> list[str]:
        if not wanted.outcome or wanted.expect is None:
            raise UsageError("requeue: give ids, or the outcome of a group with `expect`: how many they were.")
        ids = []
        async for letter in _latest(self._config, spider):
            if _is_of(letter, wanted.outcome, wanted.pattern or None):
                ids.append(letter.id)
            if len(ids) > wanted.expect:
                raise JobConflict(f"More than {wanted.expect:,} dead letters are meant by now: look again.")
        return ids


async def _latest(config: Config, spider: str) -> AsyncIterator[DeadLetter]:
    looked_at = 0
    async with operations.letters(config, spider) as letters:
        async for letter in letters:
            yield letter
            looked_at += 1
            if looked_at == MOST_LOOKED_AT:
                return


def _is_of(letter: DeadLetter, outcome: str, pattern: str | None) -> bool:
    return outcome in ("", letter.outcome) and pattern in (None, _pattern(letter))


def _pattern(letter: DeadLetter) -> str:
    """Returns the pattern of a letter's reason.

    It is never empty, because an empty pattern selects all letters of an outcome.
    """
    return pattern_of(letter.reason) or NO_WORDS


def _letter(spider: str, letter: DeadLetter) -> Letter:
    return Letter(
        id=letter.id,
        spider=spider,
        url=mask(letter.url, MOST_TEXT),
        outcome=letter.outcome,
        reason=mask(letter.reason, MOST_TEXT),
        attempts=letter.attempts,
        deliveries=letter.deliveries,
        at=_time(letter.at),
        history=[
            HistoryLine(_time(each.at), each.event, each.outcome, mask(each.reason, MOST_TEXT))
            for each in letter.history
        ],
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
