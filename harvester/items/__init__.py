"""The records: `base` is what all have in common; each family has a module of its own."""

from harvester.items.base import ITEM, LINK, RECORDS, Batch, Media, MediaContent, Provenance, Record, Reject, Usage
from harvester.items.found import Found, Looked, Said, Stage

__all__ = [
    "ITEM", "LINK", "RECORDS", "Batch", "Found", "Looked", "Media", "MediaContent", "Provenance", "Record", "Reject",
    "Said", "Stage", "Usage",
]  # fmt: skip
