"""The result of an action."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What was done."""

    number: int
    """Number of changed things; 0 if nothing had to change."""
    said: str
    """A message for people: the change, and how to undo it."""
