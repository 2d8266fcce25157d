"""What every kind of sink does: it sends events, and says of each whether the receiver has confirmed it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from harvester.formatting import duration
from harvester.publish.events import Event


class SendFailure(NamedTuple):
    """Why an event was not confirmed."""

    said: str
    is_of_event: bool = False
    """Whether the receiver takes others, but not this one as it is."""
    pause_s: float | None = None
    """How long the receiver wants to be left alone: see asked_pause."""
    is_final: bool = False
    """Whether it wants nothing any more."""


LONGEST_PAUSE_S = 24 * 3600.0
"""That a receiver may ask for."""
PAUSE_FOR_MORE_S = 3600.0
"""What it gets that asks for more: it means another unit, or has a fault, and is not to lose its events by it."""


def asked_pause(pause_s: float | None) -> tuple[float | None, str]:
    """Returns how long a receiver is left alone that asks for so many seconds, and what is said of it."""
    if not pause_s:
        return None, ""
    if pause_s <= LONGEST_PAUSE_S:
        return pause_s, f", and asks to be left alone for {duration(pause_s)}"
    return PAUSE_FOR_MORE_S, f", and asks for a pause of more than a day: it gets {duration(PAUSE_FOR_MORE_S)}"


class Sender(Protocol):
    """Speaks to one receiver. What it needs for that it opens itself, and opens again when it is lost."""

    BATCH: int
    """Events that it is given together: so many may be sent twice after a kill."""

    async def send(self, events: Sequence[Event]) -> list[SendFailure | None]:
        """One for each event, in their order; None: it is confirmed. No two have the same record."""
        ...

    async def close(self) -> None: ...
