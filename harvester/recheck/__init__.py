"""When a thing is looked at again: policies that read what earlier looks found, and say when the next is due, and why.

Pure: no clock, no store. Times are Unix seconds, rates are a day.
"""

from harvester.recheck.budget import Budget, Demand, Threshold, threshold
from harvester.recheck.day import DayItem, Planned, coming_looks, next_slot
from harvester.recheck.policies import read_policy
from harvester.recheck.policy import HISTORY, Due, Look, VisitPolicy, kept

__all__ = [
    "HISTORY",
    "Budget",
    "DayItem",
    "Demand",
    "Due",
    "Look",
    "Planned",
    "Threshold",
    "VisitPolicy",
    "coming_looks",
    "kept",
    "next_slot",
    "read_policy",
    "threshold",
]
