"""What callbacks yield about job items: further ones, how far one has come, and how one ends."""

import math
import re
from datetime import datetime
from types import NoneType
from typing import Any

import bson
from bson.errors import BSONError
from msgspec import Struct

from harvester.exceptions import InvalidRecordError, UsageError
from harvester.recheck import read_policy

MOST_INPUT_BYTES = 64 * 1024
"""Of an item's input, as BSON; of its key, too."""
MOST_LEFT_BYTES = 1024 * 1024
"""Of what a look leaves for the next one, likewise."""
MOST_LEVELS = 100
"""Of both. MongoDB nests a document no deeper than 180."""
_is_kind = re.compile(r"[a-z][a-z0-9_]{0,49}").fullmatch
_VALUES = (str, int, float, NoneType, datetime, dict, list, tuple)
_UNSTORABLE = (BSONError, OverflowError, UnicodeEncodeError, RecursionError)
"""What encoding a document as BSON may raise."""


class Found(Struct, frozen=True, gc=False):
    """A thing to be dealt with as an item of the same job; of a kind and key once. Raises InvalidRecordError.

    It is written down with the records of its page, before the page counts as done.
    """

    kind: str
    """What it is, in small letters: account, thread, parcel."""
    key: str
    """Its natural key, of at most 64 kB."""
    input: dict[str, Any] = {}
    """What the spider needs to begin with it: values as JSON has them, and times; at most 64 kB."""
    depth: int | None = None
    """Steps from what the job began with. None: one more than the item that its page was fetched for."""
    priority: int = 0
    """The larger is fed first, among those of one depth."""
    line: int | None = None
    """Of the input that it came from."""
    recheck: str = ""
    """By which policy it is looked at again, as `read_policy` reads it. Empty: by that of its job."""

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
    """An item has come into a stage. Raises InvalidRecordError."""

    item_id: str
    stage: str
    """The spider's own word for it."""
    rank: int = 0
    """Stages of a larger rank come later: a page that is read twice, or late, leads back to none."""

    def __post_init__(self) -> None:
        _check_text(self.item_id, self.stage)
        _check_number(self.item_id, self.rank)


class ItemResult(Struct, frozen=True, gc=False):
    """How an attempt at an item ends, whatever else comes of its requests. It ends when the last of them is done.

    Raises InvalidRecordError.
    """

    item_id: str
    state: str
    """done, failed or skipped; or waiting, for a time when it can go on, which counts as no failure."""
    outcome: str
    """One of Outcome, or the spider's own word."""
    reason: str = ""
    until: datetime | None = None
    """Of one that waits: when its next attempt may begin."""

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
    """What a look at an item of a standing job found, all of its pages together: the last that is said counts.

    Without it the number of records that are new is what was found. Raises InvalidRecordError.
    """

    item_id: str
    found: int = 0
    """How many things that were not known before."""
    changed: bool | None = None
    """Of what only tells whether it has changed; `found` is not read then."""
    cost: float = 1.0
    """In requests: one that is answered without a body costs a site less."""
    left: dict[str, Any] | None = None
    """What the next look is given, if this attempt ends well: values as JSON has them, and times. None: as it was."""
    not_before: datetime | None = None
    """Until when the site wants no further look."""

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
    """Whether it can be written as UTF-8: a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# MongoDB could not hold what is refused here, nor what other pages say that is written with it.


def _check_text(of: str, text: str) -> None:
    if not is_text(text):
        raise InvalidRecordError(f"{of}: {text!r} cannot be written as UTF-8")


def _check_number(of: str, number: int | None) -> None:
    if number is not None and not -(2**63) <= number < 2**63:
        raise InvalidRecordError(f"{of}: {number} is larger than MongoDB's numbers")


def _size(fault: str, given: dict[str, Any]) -> int:
    """In bytes, as BSON. Raises InvalidRecordError, which says the fault."""
    try:
        return len(bson.encode(given))
    except _UNSTORABLE as error:
        raise InvalidRecordError(f"{fault}: {error}") from None


def _check_input(kind: str, given: dict[str, Any]) -> None:
    _check_values(f"{kind}: its input", given)
    if (size := _size(f"{kind}: MongoDB cannot hold its input", given)) > MOST_INPUT_BYTES:
        raise InvalidRecordError(f"{kind}: its input has {size:,} bytes, and may have {MOST_INPUT_BYTES:,}")


def _check_values(name: str, given: dict[str, Any]) -> None:
    """Others, such as bytes, would come back from MongoDB as something else, and no answer in JSON could hold them."""
    level: list[Any] = [given]
    for _ in range(MOST_LEVELS):
        level = [each for value in level for each in _children(value)]
        for value in level:
            if not isinstance(value, _VALUES) or (isinstance(value, float) and not math.isfinite(value)):
                raise InvalidRecordError(f"{name}: {value!r} is no value of JSON, nor a time")
        if not level:
            return
    raise InvalidRecordError(f"{name} is nested more than {MOST_LEVELS} levels deep")


def _children(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
