"""Receipts: the records of an item that are not safe yet.

A leased page counts as done when it has no open records. The scheduler opens a receipt for each item of a leased page
that enters the item pipelines. The component that finally stores a record, or writes down the reason for not storing
it, settles the record in the receipt. A record that is never settled stays open, since silence confirms nothing.
"""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from harvester.items import Batch, Record, Reject

OTHER: tuple[str, ...] = ("item",)
"""Stands for an item that is not a record. It is settled when it has passed all pipelines."""

_under_way: ContextVar["Receipt | None"] = ContextVar("receipt", default=None)


class SettlesRecords:
    """Marks the item pipeline that settles records once they are stored.

    Without one, passing all pipelines settles them.
    """


class Receipt:
    """The records of an item that are neither stored nor rejected."""

    __slots__ = ("interrupted", "new", "open", "page", "rejected", "total")

    def __init__(self, item: Any, page: Any) -> None:
        self.open = parts_of(item)
        self.page = page
        """The response, or the failure, that the item was read from."""
        self.total = len(self.open)
        self.rejected = 0
        """Number of records that were rejected with a written reason."""
        self.new = 0
        """Number of stored records that were new."""
        self.interrupted = False
        """True if the run ended while a pipeline fetched something for the item, so that a part may be missing."""

    def settle(self, parts: Iterable[Hashable], rejected: int = 0, new: int = 0) -> None:
        """Marks these parts as safe, and counts the rejected and the new records."""
        self.open.difference_update(parts)
        self.rejected += rejected
        self.new += new

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Makes this receipt the current one while the pipelines handle its item."""
        token = _under_way.set(self)
        try:
            yield
        finally:
            _under_way.reset(token)


def receipt_under_way() -> Receipt | None:
    """Returns the receipt of the current item; None if its page is not leased."""
    return _under_way.get()


def page_under_way() -> Any:
    """Returns the response or failure that the current item was read from; None if its page is not leased."""
    receipt = _under_way.get()
    return receipt.page if receipt else None


def settle(parts: Iterable[Hashable], rejected: int = 0, new: int = 0) -> None:
    """Settles parts of the current item, if its page is leased. See Receipt.settle."""
    if receipt := _under_way.get():
        receipt.settle(parts, rejected, new)


def part_of(record: Record) -> tuple[str, str]:
    """Returns kind and key, which stay the same when a pipeline changes or copies the record."""
    return record.KIND, record.key


def parts_of(item: Any) -> set[Hashable]:
    """Returns the parts of an item that must be settled. Records with the same key are one part."""
    if isinstance(item, Batch):
        return {*map(part_of, item.records), *item.rejects}
    if isinstance(item, Record):
        return {part_of(item)}
    return {item} if isinstance(item, Reject) else {OTHER}
