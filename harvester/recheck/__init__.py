"""When a thing is looked at again: policies that read what earlier looks found, and say when the next is due, and why.

Pure: no clock, no store. Times are Unix seconds, rates are a day.
"""

from harvester.recheck.policies import read_policy
from harvester.recheck.policy import HISTORY, Due, Look, Policy

__all__ = ["HISTORY", "Due", "Look", "Policy", "read_policy"]
