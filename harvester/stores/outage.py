"""A server that is away is waited for: the crawl pauses, and nothing is lost."""

import asyncio
import itertools
import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeVar

from scrapy.crawler import Crawler

from harvester.components import get_component
from harvester.config import Config
from harvester.exceptions import HarvesterError, ServiceError, StateGone
from harvester.shutdown import is_ending

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_S = 0.2
"""Before an operation is tried again; doubled for each further time."""
LONGEST_PAUSE_S = 5.0


class _Waiting:
    """What all users of one server in one crawler share while it is away."""

    def __init__(self) -> None:
        self.reached = False
        """Whether the server ever answered."""
        self.waiting = 0
        """Operations that wait for it."""
        self.given_up: HarvesterError | None = None
        """Why nothing is tried any more: the run is ending, and it was waited for long enough."""


class _Outages(defaultdict[str, _Waiting]):
    """Outages by the server's name. The engine pauses while any of them has operations that wait."""

    def __init__(self) -> None:
        super().__init__(_Waiting)


def hold(crawler: Crawler, server: str) -> bool:
    """Has the engine pause while something is waited for. Returns whether it is the first to wait for that."""
    outage = get_component(crawler, _Outages)[server]
    outage.waiting += 1
    if outage.waiting > 1:
        return False
    crawler.stats.set_value(f"harvester/waiting_for/{server.lower()}", 1)
    if crawler.engine:
        crawler.engine.pause()
    return True


def let_go(crawler: Crawler, server: str) -> str:
    """It is waited for no more. Returns what to say of it, if anything."""
    outages = get_component(crawler, _Outages)
    outages[server].waiting -= 1
    if outages[server].waiting:
        return ""
    crawler.stats.set_value(f"harvester/waiting_for/{server.lower()}", 0)
    engine = crawler.engine
    if engine is None:
        return ""
    goes_on = not any(outage.waiting for outage in outages.values())
    if goes_on:
        engine.unpause()
    if not engine.running:
        return ""
    return f"{server} is back{'; the crawl goes on' if goes_on else ''}"


def is_given_up(crawler: Crawler, server: str) -> bool:
    """Whether the run is ending, and nothing waits for the server any more."""
    return get_component(crawler, _Outages)[server].given_up is not None


class Outage(ABC):
    """Makes an outage of a server a pause: operations are tried until it is back."""

    SERVER: ClassVar[str]
    """Its name, for people."""
    ERRORS: ClassVar[tuple[type[Exception], ...]]
    """What its client raises. ServiceError is looked at too: a private server may fail to start."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._outage = get_component(crawler, _Outages)[self.SERVER]

    @property
    def reached(self) -> bool:
        """Whether the server ever answered."""
        return self._outage.reached

    async def __call__(self, operation: Callable[[], Awaitable[T]]) -> T:
        """The operation's result. Raises what `refusal` and `surrender` give, and errors that do not pass."""
        if self._outage.given_up:
            raise self._outage.given_up
        errors: tuple[type[Exception], ...] = (*self.ERRORS, ServiceError)
        waited = False
        try:
            for attempt in itertools.count():
                try:
                    result = await operation()
                except errors as error:
                    if refusal := self.refusal(error):
                        raise refusal from None
                    if not self.passes(error):
                        raise
                    if self._outage.given_up:
                        raise self._outage.given_up from None
                    if not waited:
                        waited = True
                        self._pause(error)
                    elif is_ending(self._crawler):
                        self._outage.given_up = self.surrender(error, reached=self._outage.reached)
                        raise self._outage.given_up from None
                    await asyncio.sleep(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(attempt, 8)))
                    await self._start_private()
                else:
                    self._outage.reached = True
                    return result
            raise AssertionError
        finally:
            if waited:
                self._resume()

    async def _start_private(self) -> None:
        """Raises StateGone."""
        try:
            await asyncio.to_thread(self.start_private, self._config)
        except StateGone as error:
            self._outage.given_up = error
            raise
        except (ServiceError, OSError, RuntimeError):  # no file or thread is left for it
            pass

    @staticmethod
    @abstractmethod
    def start_private(config: Config) -> str:
        """Starts the private server anew where one is used. It blocks. Raises ServiceError."""

    @abstractmethod
    def refusal(self, error: Exception) -> HarvesterError | None:
        """What to end with when the server is there and will not have us."""

    @abstractmethod
    def passes(self, error: Exception) -> bool:
        """Whether the error says that the server is gone, going or coming."""

    @abstractmethod
    def condition(self, error: Exception) -> str:
        """The state of the server as a sentence without its end."""

    @abstractmethod
    def said(self, error: Exception) -> str:
        """The error's text, for people."""

    @abstractmethod
    def surrender(self, error: Exception, *, reached: bool) -> HarvesterError:
        """What to end with when the crawl is told to stop during the outage; `reached`: whether it ever answered."""

    def _pause(self, error: Exception) -> None:
        if hold(self._crawler, self.SERVER):
            logger.warning("%s; the crawl pauses until it is back: %s", self.condition(error), self.said(error))

    def _resume(self) -> None:
        if said := let_go(self._crawler, self.SERVER):
            logger.info("%s", said)
