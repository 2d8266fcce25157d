"""What a feeder of job items asks of the frontier, by way of its process's conversation with it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from scrapy import Request

from harvester.breaker.states import BreakerState
from harvester.frontier.client import FrontierClient
from harvester.frontier.codec import UnserialisableRequestError
from harvester.frontier.messages import AllParked, EndedAck, FeedItems, ItemEnded, ItemRef, Push
from harvester.frontier.store import Frontier
from harvester.frontier.workers import is_gone


class Feeding:
    """The scheduler has one."""

    def __init__(
        self,
        frontier: Frontier,
        client: FrontierClient,
        patiently: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        push: Callable[[Request, tuple[ItemRef, ...]], Push],
    ) -> None:
        self._frontier = frontier
        self._client = client
        self._patiently = patiently
        self._push = push

    def feed(self, items: Sequence[ItemRef], requests: Iterable[Request], deadline: float) -> Awaitable[None]:
        """Begins attempts at items with these requests, whatever was asked for before.

        A request belongs to all of the items, or to those that its meta names. What is returned is done when the
        frontier has heard of it, or the conversation has ended. After the deadline, in seconds of `now`, the frontier
        refuses it. Raises TooLargeError, UnserialisableRequestError; then the frontier is told nothing.
        """
        pushes = []
        for request in requests:
            request.dont_filter = True
            pushes.append(self._push(request, tuple(items)))
            if not pushes[-1].items:
                raise UnserialisableRequestError(f"<{request.url}> belongs to none of the items that begin with it")
        return self._client.feed(FeedItems(tuple(items), tuple(pushes), deadline))

    def heard(self) -> Awaitable[None]:
        """Done when the frontier has heard of all that it was told so far, or the conversation has ended."""
        return self._client.feed(FeedItems((), (), 0.0))

    def acknowledge(self, items: Sequence[ItemRef]) -> None:
        """It is written down how these attempts ended."""
        self._client.push(EndedAck(tuple(items)))

    def listen(self, hear: Callable[[list[ItemEnded]], None] | None) -> None:
        """From now on this process is told which items have ended, or with None it is not any more.

        What it does not acknowledge is told again, to any worker.
        """
        self._client.on_ended = hear

    async def others(self) -> int:
        """How many other workers were heard of within the time of a lease."""
        return await self._client.others()

    async def hold(self) -> None:
        """Keeps another Redis from being used for the same jobs; to be called often. Raises UsageError when one is."""
        await self._client.hold()

    def is_at(self, job: str | None) -> bool:
        """Whether this process is at a request of the job, so that it is not over; None: at one of any job."""
        return self._client.is_at(job)

    def all_parked(self) -> AllParked | None:
        """The parked requests, when nothing else is left for any worker."""
        return self._client.all_parked()

    async def unknown_items(self, items: Sequence[ItemRef]) -> list[ItemRef]:
        """Attempts that the frontier neither has requests of nor is to tell of."""
        unknown: list[ItemRef] = await self._patiently(lambda: self._frontier.unknown_items(items))
        return unknown

    async def workers(self) -> set[str]:
        """Those that the frontier has heard of, without those that are silent for long or known to have ended."""
        names: list[str] = await self._patiently(self._frontier.workers)
        return {name for name in names if not is_gone(name)}

    async def open_items(self, jobs: Sequence[str]) -> dict[str, int]:
        """Job -> how many of its items have requests in the frontier."""
        numbers: dict[str, int] = await self._patiently(lambda: self._frontier.open_items(jobs))
        return numbers

    def now(self) -> float:
        """The time at Redis, in epoch seconds, told from when it was last heard. 0: it was not heard yet."""
        last = self._client.last
        return last.now + monotonic() - self._client.last_at if last else 0.0

    def shut(self) -> Mapping[str, BreakerState]:
        """Breakers of sites that are not closed."""
        return self._client.breakers.shut_sites()

    @property
    def ready(self) -> int:
        """Requests that no worker has."""
        return self._client.last.ready if self._client.last else 0

    @property
    def parked(self) -> int:
        """Requests of sites that are left alone."""
        return self._client.last.parked if self._client.last else 0

    @property
    def epoch(self) -> str:
        """Another one: Redis has forgotten what it held. Empty: it is not known yet whether it may be fed."""
        return self._client.epoch
