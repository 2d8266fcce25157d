"""What every kind of sink does: it sends events, and says of each whether the receiver has confirmed it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from harvester.publish.events import Event


class Failure(NamedTuple):
    """Why an event was not confirmed."""

    said: str
    is_of_event: bool = False
    """Whether the receiver takes others, but not this one as it is."""
    pause_s: float | None = None
    """How long the receiver wants to be left alone."""
    is_final: bool = False
    """Whether it wants nothing any more."""


class Sender(Protocol):
    """Speaks to one receiver. What it needs for that it opens itself, and opens again when it is lost."""

    BATCH: int
    """Events that it is given together: so many may be sent twice after a kill."""

    async def send(self, events: Sequence[Event]) -> list[Failure | None]:
        """One for each event, in their order; None: it is confirmed. No two have the same record."""
        ...

    async def close(self) -> None: ...
