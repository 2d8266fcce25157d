"""Objects that callbacks yield about job items: further items, the stage of an item, and the end of an attempt."""

import math
import re
from datetime import datetime
from types import NoneType
from typing import Any

import bson
from msgspec import Struct

from harvester.exceptions import InvalidRecordError, UsageError
from harvester.items.bson_limits import UNSTORABLE, children
from harvester.recheck import read_policy

MOST_INPUT_BYTES = 64 * 1024
"""Maximum number of bytes in an item's input (as BSON), and in its key."""
MOST_LEFT_BYTES = 1024 * 1024
"""Maximum number of bytes (as BSON) of the state that a visit saves for the next one."""
MOST_LEVELS = 100
"""Maximum depth of both values. MongoDB allows more, see bson_limits.MAX_LEVELS."""
_is_kind = re.compile(r"[a-z][a-z0-9_]{0,49}").fullmatch
_VALUES = (str, int, float, NoneType, datetime, dict, list, tuple)


class Found(Struct, frozen=True, gc=False):
    """A thing to be handled as an item of the same job.

    A job has at most one item with this kind and key. The item is stored with the records of its page, before the page
    counts as done. Raises InvalidRecordError.
    """

    kind: str
    """Type of the thing in small letters: account, thread, parcel."""
    key: str
    """Natural key, at most 64 kB."""
    input: dict[str, Any] = {}
    """Data that the spider needs to start the item: JSON values and times, at most 64 kB."""
    depth: int | None = None
    """Steps from the start of the job. None: one more than the item that the page was fetched for."""
    priority: int = 0
    """Among items with the same depth, a larger priority is fed first."""
    line: int | None = None
    """Line of the input that the item came from."""
    recheck: str = ""
    """Policy of repeated visits, as text for `read_policy`. Empty: the policy of the job."""

    def __post_init__(self) -> None:
        if not _is_kind(self.kind):
            raise InvalidRecordError(f"{self.kind!r} is no kind of items: use small letters, digits and _")
        if not self.key or not is_text(self.key):
            raise InvalidRecordError(f"{self.kind}: {self.key!r} is no key")
        if (size := len(self.key.encode())) > MOST_INPUT_BYTES:
            raise InvalidRecordError(f"{self.kind}: its key has {size:,} bytes, and may have {MOST_INPUT_BYTES:,}")
        for number in (self.depth, self.priority, self.line):
            _check_number(self.kind, number)
        if self.input:
            _check_input(self.kind, self.input)
        if self.recheck:
            try:
                read_policy(self.recheck)
            except UsageError as error:
                raise InvalidRecordError(f"{self.kind}: {error}") from None


class Stage(Struct, frozen=True, gc=False):
    """Reports that an item has reached a stage. Raises InvalidRecordError."""

    item_id: str
    stage: str
    """Name of the stage, chosen by the spider."""
    rank: int = 0
    """Order of the stage.

    An item never moves to a lower rank, so a page that is read twice or late does not move it back.
    """

    def __post_init__(self) -> None:
        _check_text(self.item_id, self.stage)
        _check_number(self.item_id, self.rank)


class ItemResult(Struct, frozen=True, gc=False):
    """The result of an attempt at an item, regardless of the item's other requests.

    The attempt ends when the item's last request is done. Raises InvalidRecordError.
    """

    item_id: str
    state: str
    """done, failed, skipped or waiting. A waiting item can continue at a later time; it has not failed."""
    outcome: str
    """A value of Outcome, or the spider's own word."""
    reason: str = ""
    until: datetime | None = None
    """Earliest time of the next attempt, for a waiting item."""

    def __post_init__(self) -> None:
        if self.state not in ("done", "failed", "skipped", "waiting"):
            raise InvalidRecordError(
                f"{self.item_id}: no item ends as {self.state!r}, but done, failed, skipped or waiting"
            )
        if (self.state == "waiting") != (self.until is not None):
            raise InvalidRecordError(f"{self.item_id}: an item that is waiting says until when, and no other does")
        for text in (self.outcome, self.reason):
            _check_text(self.item_id, text)


class Looked(Struct, frozen=True, gc=False):
    """The result of a visit to an item of a recurring job, all pages together.

    If a callback yields several, the last one counts. Without any, the number of new records counts as found. Raises
    InvalidRecordError.
    """

    item_id: str
    found: int = 0
    """Number of new things that the visit found."""
    changed: bool | None = None
    """For sites that only show whether something changed. If it is set, `found` is ignored."""
    cost: float = 1.0
    """Cost in requests. A response without a body costs a site less than one request."""
    left: dict[str, Any] | None = None
    """State for the next visit, saved if this attempt succeeds: JSON values and times. None: the earlier state stays.
    """
    not_before: datetime | None = None
    """Earliest time of the next visit, if the site states one."""

    def __post_init__(self) -> None:
        if self.found < 0 or not 0 <= self.cost < math.inf:
            raise InvalidRecordError(f"{self.item_id}: neither what a look found nor its cost is below 0")
        _check_number(self.item_id, self.found)
        if self.left:
            _check_values(f"{self.item_id}: what its look has left", self.left)
            size = _size(f"{self.item_id}: MongoDB cannot hold what its look has left", self.left)
            if size > MOST_LEFT_BYTES:
                raise InvalidRecordError(
                    f"{self.item_id}: what its look has left has {size:,} bytes, and may have {MOST_LEFT_BYTES:,}"
                )


def is_text(text: str) -> bool:
    """True if the text can be encoded as UTF-8. A lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# MongoDB cannot store the values that are refused below, and would lose the other results written with them.


def _check_text(of: str, text: str) -> None:
    if not is_text(text):
        raise InvalidRecordError(f"{of}: {text!r} cannot be written as UTF-8")


def _check_number(of: str, number: int | None) -> None:
    if number is not None and not -(2**63) <= number < 2**63:
        raise InvalidRecordError(f"{of}: {number} is larger than MongoDB's numbers")


def _size(fault: str, given: dict[str, Any]) -> int:
    """Returns the bytes of the value as BSON. Raises InvalidRecordError with the text of `fault`."""
    try:
        return len(bson.encode(given))
    except UNSTORABLE as error:
        raise InvalidRecordError(f"{fault}: {error}") from None


def _check_input(kind: str, given: dict[str, Any]) -> None:
    _check_values(f"{kind}: its input", given)
    if (size := _size(f"{kind}: MongoDB cannot hold its input", given)) > MOST_INPUT_BYTES:
        raise InvalidRecordError(f"{kind}: its input has {size:,} bytes, and may have {MOST_INPUT_BYTES:,}")


def _check_values(name: str, given: dict[str, Any]) -> None:
    """Raises InvalidRecordError for a value that is neither JSON nor a time.

    MongoDB would return other values, such as bytes, as another type, and a JSON response could not hold them.
    """
    level: list[Any] = [given]
    for _ in range(MOST_LEVELS):
        level = [each for value in level for each in children(value)]
        for value in level:
            if not isinstance(value, _VALUES) or (isinstance(value, float) and not math.isfinite(value)):
                raise InvalidRecordError(f"{name}: {value!r} is no value of JSON, nor a time")
        if not level:
            return
    raise InvalidRecordError(f"{name} is nested more than {MOST_LEVELS} levels deep")
