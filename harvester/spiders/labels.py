"""Labels, columns and fields that no page of a job had before, of a layout that is else as before; and labels that
nobody reads."""

import re
from collections.abc import Mapping, Sequence

from scrapy.statscollectors import StatsCollector

NEW_LABELS = "harvester/new_labels"
"""Stat, which the monitors read."""
MOST_KEPT = 20
"""Of them."""
UNREAD_LABELS = "harvester/unread_labels"
"""Stats below it: the label -> how many pages of a parcel, or rows of a table, have it."""
COUNTED = "harvester/counties/unread_labels_counted"
MAX_COUNTED = 200
OTHER_LABELS = "other labels"
_number = re.compile(r"\b\d+\b").sub
"""Years, and numbers of buildings, are no part of a label."""


def note_new_labels(stats: StatsCollector, labels: Sequence[str]) -> None:
    """Has the monitors tell of them."""
    if labels:
        stats.set_value(NEW_LABELS, [*stats.get_value(NEW_LABELS, []), *labels][:MOST_KEPT])


def note_unread_labels(stats: StatsCollector, times: Mapping[str, int]) -> None:
    """Counts labels that nobody reads, each by itself; beyond MAX_COUNTED of them together."""
    for label, number in times.items():
        name = f"{UNREAD_LABELS}/{_number('#', label)}"
        known = stats.get_value(name)
        if known is None:
            if stats.get_value(COUNTED, 0) >= MAX_COUNTED:
                name = f"{UNREAD_LABELS}/{OTHER_LABELS}"
            else:
                stats.inc_value(COUNTED)
        stats.inc_value(name, number)
