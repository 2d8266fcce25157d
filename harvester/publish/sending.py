"""The interface for all kinds of sinks: a sender sends events, and returns a result for each."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from harvester.formatting import duration
from harvester.publish.events import Event


class SendFailure(NamedTuple):
    """The reason why an event was not confirmed."""

    said: str
    is_of_event: bool = False
    """True if the receiver takes other events, but refuses this one."""
    pause_s: float | None = None
    """Seconds that the receiver asks to pause: see asked_pause."""
    is_final: bool = False
    """True if the receiver wants no more events at all."""


LONGEST_PAUSE_S = 24 * 3600.0
"""Maximum seconds of a pause that a receiver may ask for."""
PAUSE_FOR_MORE_S = 3600.0
"""Seconds of the pause when a receiver asks for more: it means another unit, or is faulty, and must not lose its
events."""


def asked_pause(pause_s: float | None) -> tuple[float | None, str]:
    """Returns the pause for the seconds that a receiver asks for, and its description."""
    if not pause_s:
        return None, ""
    if pause_s <= LONGEST_PAUSE_S:
        return pause_s, f", and asks to be left alone for {duration(pause_s)}"
    return PAUSE_FOR_MORE_S, f", and asks for a pause of more than a day: it gets {duration(PAUSE_FOR_MORE_S)}"


class Sender(Protocol):
    """Sends to one receiver. It opens its resources itself, and opens them again when they are lost."""

    BATCH: int
    """Events in one call. As many may be sent twice after a kill."""

    async def send(self, events: Sequence[Event]) -> list[SendFailure | None]:
        """Returns a result for each event, in their order; None if it is confirmed. No two events have the same
        record."""
        ...

    async def close(self) -> None: ...
