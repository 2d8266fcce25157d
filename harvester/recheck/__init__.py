"""Policies for the next visit of an item: they read the results of earlier visits, and return the next time and a
reason.

Pure: no clock, no store. Times are Unix seconds, rates are per day.
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
