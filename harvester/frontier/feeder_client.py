"""Access to the frontier for a feeder of job items, over the connection of the process."""

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
    """The feeder's access to the frontier; the scheduler has one."""

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
        """Starts attempts at items with these requests, even if they were fetched before.

        A request belongs to all items, or to those that its meta names. The returned awaitable is done when the
        frontier has the feed, or the connection has ended. After the deadline, in seconds of `now`, the frontier
        refuses the feed. Raises TooLargeError and UnserialisableRequestError; then nothing was sent.
        """
        pushes = []
        for request in requests:
            request.dont_filter = True
            pushes.append(self._push(request, tuple(items)))
            if not pushes[-1].items:
                raise UnserialisableRequestError(f"<{request.url}> belongs to none of the items that begin with it")
        return self._client.feed(FeedItems(tuple(items), tuple(pushes), deadline))

    def heard(self) -> Awaitable[None]:
        """Returns an awaitable that is done when the frontier has all messages so far, or the connection has ended."""
        return self._client.feed(FeedItems((), (), 0.0))

    def acknowledge(self, items: Sequence[ItemRef]) -> None:
        """Acknowledges that the results for these attempts are saved."""
        self._client.push(EndedAck(tuple(items)))

    def listen(self, hear: Callable[[list[ItemEnded]], None] | None) -> None:
        """Registers the receiver of items that have ended; None removes it.

        Items that are not acknowledged are sent again, to any worker.
        """
        self._client.on_ended = hear

    async def others(self) -> int:
        """Returns how many other workers sent a heartbeat within the time of a lease."""
        return await self._client.others()

    async def hold(self) -> None:
        """Prevents the use of another Redis for the same jobs; to be called often. Raises UsageError if one is used."""
        await self._client.hold()

    def is_at(self, job: str | None) -> bool:
        """Returns True if this process holds a request of the job, so the job is not finished. None: any job."""
        return self._client.is_at(job)

    def all_parked(self) -> AllParked | None:
        """Returns the parked requests, when no other work is left for any worker."""
        return self._client.all_parked()

    async def unknown_items(self, items: Sequence[ItemRef]) -> list[ItemRef]:
        """Returns the attempts that have no request in the frontier, and whose end it will not report."""
        unknown: list[ItemRef] = await self._patiently(lambda: self._frontier.unknown_items(items))
        return unknown

    async def workers(self) -> set[str]:
        """Returns the workers that the frontier knows, without those that are known to have ended."""
        names: list[str] = await self._patiently(self._frontier.workers)
        return {name for name in names if not is_gone(name)}

    async def open_items(self, jobs: Sequence[str]) -> dict[str, int]:
        """Returns by job how many items have requests in the frontier."""
        numbers: dict[str, int] = await self._patiently(lambda: self._frontier.open_items(jobs))
        return numbers

    def now(self) -> float:
        """Returns the time at Redis in epoch seconds, counted on from its last reply. 0: before the first reply."""
        last = self._client.last
        return last.now + monotonic() - self._client.last_at if last else 0.0

    def shut(self) -> Mapping[str, BreakerState]:
        """Returns the breakers of sites that are not closed."""
        return self._client.breakers.shut_sites()

    @property
    def ready(self) -> int:
        """The number of requests that no worker has."""
        return self._client.last.ready if self._client.last else 0

    @property
    def parked(self) -> int:
        """The number of requests of sites whose breaker is open."""
        return self._client.last.parked if self._client.last else 0

    @property
    def epoch(self) -> str:
        """The frontier's epoch: it changes when Redis has forgotten its data. Empty: feeding is not allowed yet."""
        return self._client.epoch
