"""Receipts: which records of an item are not yet safe. A leased page counts as done when none of its records is open.

The scheduler opens a receipt for each item of a leased page that goes into the item pipelines. Whoever stores a record
last, or writes down why it is not stored, settles it there. What nobody settles is open: silence is no confirmation.
"""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from harvester.items import Batch, Record, Reject

OTHER: tuple[str, ...] = ("item",)
"""Stands for an item that is no record: it is settled when it has passed all pipelines."""

_under_way: ContextVar["Receipt | None"] = ContextVar("receipt", default=None)


class SettlesRecords:
    """Marks the item pipeline that settles records once they are stored. Without one, passing all pipelines does."""


class Receipt:
    """The records of one item that are neither stored nor rejected."""

    __slots__ = ("interrupted", "new", "open", "page", "rejected", "total")

    def __init__(self, item: Any, page: Any) -> None:
        self.open = parts_of(item)
        self.page = page
        """The answer, or the failure, that it was read from."""
        self.total = len(self.open)
        self.rejected = 0
        """How many of its records were rejected with a written reason."""
        self.new = 0
        """How many of those that were stored were not known before."""
        self.interrupted = False
        """Whether the run ended while a pipeline fetched something for it, of which it may lack a part."""

    def settle(self, parts: Iterable[Hashable], rejected: int = 0, new: int = 0) -> None:
        """Notes that these parts are safe, how many records were rejected, and how many were not known before."""
        self.open.difference_update(parts)
        self.rejected += rejected
        self.new += new

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """While the pipelines handle the item, they find its receipt."""
        token = _under_way.set(self)
        try:
            yield
        finally:
            _under_way.reset(token)


def receipt_under_way() -> Receipt | None:
    """That of the item which is handled now; None when its page is not leased."""
    return _under_way.get()


def page_under_way() -> Any:
    """The answer, or failure, that the item which is handled now was read from; None when its page is not leased."""
    receipt = _under_way.get()
    return receipt.page if receipt else None


def settle(parts: Iterable[Hashable], rejected: int = 0, new: int = 0) -> None:
    """The same for the item which is handled now, if its page is leased."""
    if receipt := _under_way.get():
        receipt.settle(parts, rejected, new)


def part_of(record: Record) -> tuple[str, str]:
    """Kind and key: a record that a pipeline changed or copied is still that record."""
    return record.KIND, record.key


def parts_of(item: Any) -> set[Hashable]:
    """What of an item is to be settled. Records with the same key are one."""
    if isinstance(item, Batch):
        return {*map(part_of, item.records), *item.rejects}
    if isinstance(item, Record):
        return {part_of(item)}
    return {item} if isinstance(item, Reject) else {OTHER}
