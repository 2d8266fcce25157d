"""Waits for a server that is down: the crawl pauses, and no data is lost."""

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
"""Seconds to wait before the first retry of an operation. Doubled for each further retry."""
LONGEST_PAUSE_S = 5.0


class _Waiting:
    """The state of an outage, shared by all users of the server in a crawler."""

    def __init__(self) -> None:
        self.reached = False
        """True if the server has ever answered."""
        self.waiting = 0
        """Number of operations that wait for the server."""
        self.given_up: HarvesterError | None = None
        """Reason why operations fail at once: the run is ending, and has waited long enough."""


class _Outages(defaultdict[str, _Waiting]):
    """Outages by the server's name. The engine pauses while any server has waiting operations."""

    def __init__(self) -> None:
        super().__init__(_Waiting)


def hold(crawler: Crawler, server: str) -> bool:
    """Pauses the engine while an operation waits for a server.

    Returns True for the first waiting operation of the server.
    """
    outage = get_component(crawler, _Outages)[server]
    outage.waiting += 1
    if outage.waiting > 1:
        return False
    crawler.stats.set_value(f"harvester/waiting_for/{server.lower()}", 1)
    if crawler.engine:
        crawler.engine.pause()
    return True


def let_go(crawler: Crawler, server: str) -> str:
    """Ends the waiting of an operation. Returns a message to log, or an empty text."""
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
    """True if the run is ending and no longer waits for the server."""
    return get_component(crawler, _Outages)[server].given_up is not None


class Outage(ABC):
    """Turns an outage of a server into a pause: operations are retried until the server is back."""

    SERVER: ClassVar[str]
    """Name of the server, for people."""
    ERRORS: ClassVar[tuple[type[Exception], ...]]
    """Exceptions of the server's client. ServiceError is checked too, since a private server may fail to start."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._outage = get_component(crawler, _Outages)[self.SERVER]

    @property
    def reached(self) -> bool:
        """True if the server has ever answered."""
        return self._outage.reached

    async def __call__(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Returns the operation's result.

        Raises the errors from `refusal` and `surrender`, and errors that will not pass.
        """
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
        """Starts the private server if it is used. Raises StateGone."""
        try:
            await asyncio.to_thread(self.start_private, self._config)
        except StateGone as error:
            self._outage.given_up = error
            raise
        except (ServiceError, OSError, RuntimeError):  # out of files or threads
            pass

    @staticmethod
    @abstractmethod
    def start_private(config: Config) -> str:
        """Starts the private server again, if one is used. Blocks. Raises ServiceError."""

    @abstractmethod
    def refusal(self, error: Exception) -> HarvesterError | None:
        """Returns the error to end with if the server is up but refuses us; else None."""

    @abstractmethod
    def passes(self, error: Exception) -> bool:
        """Returns True if the error means that the server is down, stopping or starting."""

    @abstractmethod
    def condition(self, error: Exception) -> str:
        """Returns the state of the server, as a sentence without a full stop."""

    @abstractmethod
    def said(self, error: Exception) -> str:
        """Returns the error's text, for people."""

    @abstractmethod
    def surrender(self, error: Exception, *, reached: bool) -> HarvesterError:
        """Returns the error to end with if the crawl is stopped during the outage.

        `reached` is True if the server has ever answered.
        """

    def _pause(self, error: Exception) -> None:
        if hold(self._crawler, self.SERVER):
            logger.warning("%s; the crawl pauses until it is back: %s", self.condition(error), self.said(error))

    def _resume(self) -> None:
        if said := let_go(self._crawler, self.SERVER):
            logger.info("%s", said)
