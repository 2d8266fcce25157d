"""The records: `base` is what all have in common; each family has a module of its own."""

from harvester.items.base import ITEM, LINK, RECORDS, Batch, Media, MediaContent, Provenance, Record, Reject, Usage
from harvester.items.found import Found, ItemResult, Looked, Stage

__all__ = [
    "ITEM",
    "LINK",
    "RECORDS",
    "Batch",
    "Found",
    "ItemResult",
    "Looked",
    "Media",
    "MediaContent",
    "Provenance",
    "Record",
    "Reject",
    "Stage",
    "Usage",
]  # fmt: skip
