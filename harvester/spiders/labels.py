"""Labels, columns and fields that no page of a job had before, of a layout that is else as before."""

from collections.abc import Sequence

from scrapy.statscollectors import StatsCollector

NEW_LABELS = "harvester/new_labels"
"""Stat, which the monitors read."""
MOST_KEPT = 20
"""Of them."""


def note_new_labels(stats: StatsCollector, labels: Sequence[str]) -> None:
    """Has the monitors tell of them."""
    if labels:
        stats.set_value(NEW_LABELS, [*stats.get_value(NEW_LABELS, []), *labels][:MOST_KEPT])
