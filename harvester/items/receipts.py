"""Receipts: the records of an item that are not safe yet.

A leased page counts as done when it has no open records. A receipt is opened for each item of a leased page that enters
the item pipelines. The component that finally stores a record, or writes down the reason for not storing
it, settles the record in the receipt. A record that is never settled stays open, since silence confirms nothing.
"""

from collections.abc import Hashable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from harvester.items import Batch, Record, Reject

OTHER: tuple[str, ...] = ("item",)
"""Stands for an item that is not a record. It is settled when it has passed all pipelines."""


@dataclass(slots=True)
class PageRecords:
    """The records of a leased page, counted by what became of them."""

    yielded: int = 0
    unsettled: int = 0
    """Number of records that are neither stored nor rejected."""
    rejected: int = 0
    """Number of records that were rejected with a saved reason."""
    new: int = 0
    """Number of stored records that were not known before."""
    interrupted: bool = False
    """True if the run ended while a pipeline fetched something for an item, so that a part may be missing."""

    @property
    def stored(self) -> int:
        return self.yielded - self.unsettled - self.rejected


class SettlesRecords:
    """Marks the item pipeline that settles records once they are stored.

    Without one, passing all pipelines settles them.
    """


class Receipt:
    """The records of an item that are neither stored nor rejected."""

    __slots__ = ("open", "page", "records")

    def __init__(self, item: Any, page: Any, records: PageRecords) -> None:
        self.open = parts_of(item)
        self.page = page
        """The response, or the failure, that the item was read from."""
        self.records = records
        records.yielded += len(self.open)
        records.unsettled += len(self.open)

    def settle(self, parts: Iterable[Hashable], rejected: int = 0, new: int = 0) -> None:
        """Marks these parts as safe, and counts the rejected and the new records."""
        before = len(self.open)
        self.open.difference_update(parts)
        self.records.unsettled -= before - len(self.open)
        self.records.rejected += rejected
        self.records.new += new


_page: ContextVar["tuple[Any, PageRecords] | None"] = ContextVar("page", default=None)
_under_way: ContextVar["Receipt | None"] = ContextVar("receipt", default=None)


def begin_page(page: Any, records: PageRecords | None) -> None:
    """Names the page to which the items belong that this task yields from now on. `records` is None without a lease.

    Scrapy reads each page in a task of its own, and its items in tasks that this one starts.
    """
    _page.set((page, records) if records else None)


def open_receipt(item: Any) -> None:
    """Opens the receipt of an item that enters the pipelines. It stays the current one for the rest of the task."""
    page = _page.get()
    _under_way.set(Receipt(item, *page) if page else None)


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
