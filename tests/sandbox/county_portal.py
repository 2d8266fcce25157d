"""A site that shows the parcels of a county, and what may become of it while it is harvested."""

import asyncio
from collections.abc import Callable
from typing import ClassVar

from tests.crawling import Answer, Site

Changes = dict[str, str]
"""What is written on a page -> what is written instead."""


class CountyPortal(Site):
    """Give `page` and `well`; where there are sessions `respond` and `forget`."""

    page: ClassVar[str]
    """What the address of a page of a parcel, or the form that leads to one, has in it, and no other."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = 0
        """Pages of parcels that were asked for."""
        self.bad: Callable[[str, int], Answer | None] = lambda path, number: None
        """Path, and how often it was asked for before -> what is answered instead."""
        self.changes: Changes = {}
        """In pages of parcels, after so many of them."""
        self.changes_after = 0
        self.expire_every = 0
        """With each so manieth request all sessions end."""
        self.held_after = 0
        """Requests after which none is answered until `released`; 0: all are."""
        self.released = asyncio.Event()
        self.overlaps = 0
        """Requests that came while another one of their session was answered."""

    async def answer(self, path: str, number: int) -> Answer:
        self.shown += self.page in path
        if self.held_after and len(self.arrivals) > self.held_after:
            await self.released.wait()
        if self.expire_every and len(self.arrivals) % self.expire_every == 0:
            self.forget()
        return self.bad(path, number) or await self.respond(path, number)

    async def respond(self, path: str, number: int) -> Answer:
        """What is answered when nothing is wrong. Where there are sessions, in that of the request."""
        return self.well(path)

    def well(self, path: str) -> Answer:
        """Likewise, where there are none."""
        raise NotImplementedError

    def forget(self) -> None:
        """Ends all sessions."""

    def asked(self, part: str) -> int:
        """How many requests had this in their path."""
        return sum(part in arrival.path for arrival in self.arrivals)

    @property
    def now_changed(self) -> Changes:
        """What is changed on the page of a parcel that is shown now."""
        return self.changes if self.shown > self.changes_after else {}
