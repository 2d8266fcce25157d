"""The records: `base` holds the base class of all records, and each family of records has its own module."""

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
    "Said",
    "Stage",
    "Usage",
]  # fmt: skip

Said = ItemResult
"""The earlier name of ItemResult: projects import it."""
