"""Reports labels that are new in a job while its layout stays the same, and labels that parsers do not read."""

import re
from collections.abc import Mapping, Sequence

from scrapy.statscollectors import StatsCollector

NEW_LABELS = "harvester/new_labels"
"""Stat: new labels; the monitors read it."""
MOST_KEPT = 20
"""Maximum number of new labels in the stat."""
UNREAD_LABELS = "harvester/unread_labels"
"""Prefix of stats: label -> number of a parcel's pages, or rows of a table, that have it."""
COUNTED = "harvester/counties/unread_labels_counted"
MAX_COUNTED = 200
OTHER_LABELS = "other labels"
_number = re.compile(r"\b\d+\b").sub
"""Replaces numbers: years and numbers of buildings vary within one label."""


def note_new_labels(stats: StatsCollector, labels: Sequence[str]) -> None:
    """Adds new labels to the stat that the monitors read."""
    if labels:
        stats.set_value(NEW_LABELS, [*stats.get_value(NEW_LABELS, []), *labels][:MOST_KEPT])


def note_unread_labels(stats: StatsCollector, times: Mapping[str, int]) -> None:
    """Counts labels that parsers do not read, each in its own stat; beyond MAX_COUNTED they share one."""
    for label, number in times.items():
        name = f"{UNREAD_LABELS}/{_number('#', label)}"
        known = stats.get_value(name)
        if known is None:
            if stats.get_value(COUNTED, 0) >= MAX_COUNTED:
                name = f"{UNREAD_LABELS}/{OTHER_LABELS}"
            else:
                stats.inc_value(COUNTED)
        stats.inc_value(name, number)
