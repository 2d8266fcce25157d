"""What an action says of itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What was done."""

    number: int
    """Things that were changed; 0: all was so already."""
    said: str
    """For people: what, and how it can be undone."""
