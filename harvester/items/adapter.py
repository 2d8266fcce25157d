"""Lets itemadapter, and with it Scrapy's tools, read the fields of records."""

from collections.abc import Iterator
from typing import Any

import msgspec
from itemadapter import ItemAdapter
from itemadapter.adapter import AdapterInterface

from harvester.items.base import Record


class RecordAdapter(AdapterInterface):
    """A read-only view of a record, with values as in JSON.

    It has `kind`, `_id`, and each field that has a value, except `raw`.
    """

    def __init__(self, item: Record) -> None:
        super().__init__(item)
        fields = msgspec.to_builtins(item, builtin_types=(bytes,))
        fields.pop("raw", None)
        self._fields: dict[str, Any] = {"kind": item.KIND, "_id": item.key, **fields}

    @classmethod
    def is_item_class(cls, item_class: type) -> bool:
        return issubclass(item_class, Record)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __setitem__(self, name: str, value: Any) -> None:
        raise TypeError("A record is what was read: it cannot be changed.")

    def __delitem__(self, name: str) -> None:
        raise TypeError("A record is what was read: it cannot be changed.")


def register() -> None:
    """Registers RecordAdapter in itemadapter. Calling it twice has no effect."""
    if RecordAdapter not in ItemAdapter.ADAPTER_CLASSES:
        ItemAdapter.ADAPTER_CLASSES = (*ItemAdapter.ADAPTER_CLASSES, RecordAdapter)
