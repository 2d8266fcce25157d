"""Slots, permits and pauses of hosts that all workers at a Redis share, so that a host sees one crawler, not many.

"Host" means a site of the registry with all its hosts, or a host that is not registered.

A *slot* is a moment when one request may leave. Redis spaces the slots at the pace of the slowest worker, and counts
the slots of a window. A *permit* lets one request be under way. Each worker holds a share of the host's permits while
it reports to Redis. A *pause* is a time without requests that a host asked for. One worker receives it, and all apply
it.

Requests wait in this process, and a worker asks Redis for the slots of many requests together. A slot is given at most
AHEAD_S before its time (a second to a worker that is alone), so that no worker acts on old facts. A pause, or a slower
pace, drops the slots that were given.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError
from scrapy import signals
from scrapy.crawler import Crawler

from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.politeness.host_queue import AHEAD_S, HostQueue, SlotAnswer
from harvester.shutdown import CHECK_S, RunEnding, end, is_ending
from harvester.sites.politeness import Limits
from harvester.stores import lua
from harvester.stores.redis import RedisOutage, connect, unavailable

logger = logging.getLogger(__name__)

CHANNEL = "harvester:silences"
"""Channel with two messages to workers. "MICROSECONDS HOST" is a pause of the host; with 0 microseconds it has free
permits."""
LONG_S = 2.0
"""Seconds of a pause above which a request with patient=False does not wait here."""
CLOSE_S = 2.0
"""Seconds that the end of a run has to return permits. Without a return their lease ends a little later."""


class HostPaused(Exception):
    """Raised by `acquire` with patient=False: the host is paused, or too many requests wait for it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class HostLimiter:
    """This worker's slots and permits of all hosts. Call `acquire` before a request, and `release` after it."""

    def __init__(
        self,
        crawler: Crawler,
        config: Config,
        limits_of: Callable[[str], Limits],
        on_pause: Callable[[str, float], None],
    ) -> None:
        self._crawler = crawler
        self._config = config
        self._limits_of = limits_of
        self._on_pause = on_pause
        self._retrying = RedisOutage(crawler, config)
        # Requests that are sent away return at most this far apart, so that some are back when the host recovers.
        self._usual_interval_s = 1 / (config.requests_per_second or 50)
        self._worker = uuid4().hex
        self._hosts: dict[str, HostQueue] = {}
        self._asking: set[HostQueue] = set()
        self._redis: Redis | None = None
        self._exchange: asyncio.Task[None] | None = None
        self._background: list[asyncio.Task[None]] = []
        self._closed = False
        crawler.signals.connect(self.close, signals.spider_closed)

    async def acquire(self, name: str, *, patient: bool = True, again: bool = False) -> None:
        """Waits for a permit and a slot. Raises RunEnding when the run ends before.

        With again=True the request asks for another slot: it returns its permit, and is the first to get one again.

        With patient=False raises HostPaused instead of waiting through a long pause. It also does so when the queue of
        the host is long and would leave no room in the downloader for requests of other hosts.
        """
        if self._closed or is_ending(self._crawler):
            raise RunEnding("the crawl is being stopped")
        if not self._background:
            self._background = [asyncio.create_task(self._beat()), asyncio.create_task(self._listen())]
        host = self._host(name)
        host.adapt(self._limits_of(name))
        if not patient and host.is_crowded() and self._lacks_room():
            raise HostPaused(host.away(monotonic(), self._usual_interval_s))
        slot = host.join(again=again, patient=patient)
        self._serve(host)
        while True:
            try:
                given = await slot
            except asyncio.CancelledError:
                if slot.done() and not slot.cancelled() and not slot.exception():
                    host.not_used(slot.result())
                    self.release(name)
                raise
            if host.paused_until <= monotonic():
                return
            host.not_used(given)
            slot = host.join(again=True, patient=patient)  # the pause began after the slot was given
            self._serve(host)

    def release(self, name: str) -> None:
        """Returns the permit at the end of a request."""
        host = self._hosts[name]
        host.left(monotonic())
        self._serve(host)

    def is_paused(self, name: str) -> bool:
        """Returns True if the host is paused now."""
        return self._host(name).paused_until > monotonic()

    def pause(self, name: str, seconds: float) -> None:
        """Pauses the host for all workers, because it asked this worker to wait."""
        host = self._host(name)
        if host.pause(monotonic() + seconds):
            host.untold = True
            self._on_pause(name, seconds)
            self._serve(host)

    async def close(self) -> None:
        """Ends all waiting, and returns the permits to other workers."""
        self._closed = True
        for task in self._background:
            task.cancel()
        for host in self._hosts.values():
            self._stop(host)
        if self._exchange:
            self._exchange.cancel()
            await asyncio.wait([self._exchange])
        if self._redis:
            known = [host for host in self._hosts.values() if host.is_known]
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    for host in known:
                        host.give_back()
                    await self._send(self._redis, known)
            with contextlib.suppress(RedisError, OSError):
                await self._redis.aclose()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _lacks_room(self) -> bool:
        assert self._crawler.engine
        downloader = self._crawler.engine.downloader
        return len(downloader.active) > downloader.total_concurrency / 2

    def _host(self, name: str) -> HostQueue:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = HostQueue(name, self._limits_of(name))
        return host

    def _serve(self, host: HostQueue) -> None:
        """Releases the requests whose slot has come, and asks for slots for the others."""
        now = monotonic()
        if (pause := host.paused_until - now) > LONG_S:
            host.send_away(HostPaused(pause))
        again_at = host.serve(now)
        if host.timer:
            host.timer.cancel()
            host.timer = None
        if again_at is not None and not self._closed:
            loop = asyncio.get_running_loop()
            host.timer = loop.call_later(again_at - now, self._serve_at, host, again_at)
        if host.must_ask(now) and not self._closed:
            self._asking.add(host)
            if self._exchange is None or self._exchange.done():
                self._exchange = asyncio.create_task(self._ask())

    def _serve_at(self, host: HostQueue, meant_at: float) -> None:
        host.was_late(monotonic() - meant_at)
        self._serve(host)

    async def _ask(self) -> None:
        """Exchanges until no host has a question. Questions that arise during an exchange travel together in the next
        one."""
        await asyncio.sleep(0)  # lets the requests of this moment gather
        try:
            while self._asking:
                hosts, self._asking = list(self._asking), set()
                redis = await self._retrying(self._connected)
                await self._retrying(partial(self._send, redis, hosts))
                for host in hosts:
                    self._serve(host)
        except HarvesterError as error:
            self._give_up(error)
        except RedisError as error:
            self._give_up(unavailable(error))

    def _give_up(self, error: HarvesterError) -> None:
        if not is_ending(self._crawler):
            logger.error("%s", error)
            end(self._crawler, error.finish_reason, error.exit_code, str(error))

    async def _connected(self) -> Redis:
        redis = self._redis
        if redis is None:
            redis = self._redis = await asyncio.to_thread(connect, self._config)  # may have to start the private server
        return redis

    async def _send(self, redis: Redis, hosts: list[HostQueue]) -> None:
        """Asks for all hosts in one round trip, and applies the answers."""
        asked_at = monotonic()
        questions = [self._question(host, asked_at) for host in hosts]
        script = lua.load("harvester.politeness", "slots")
        answers = await self._answers(redis, questions, "EVALSHA", script.sha)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            answers = await self._answers(redis, questions, "EVAL", script.text)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        heard_at = monotonic()
        for host, answer in zip(hosts, answers, strict=True):
            if host.hear(SlotAnswer(*answer), asked_at, heard_at):
                self._on_pause(host.name, host.paused_until - heard_at)

    async def _answers(self, redis: Redis, questions: list[list[Any]], command: str, script: str) -> list[Any]:
        async with redis.pipeline(transaction=False) as pipeline:
            for question in questions:
                pipeline.execute_command(command, script, 3, *question)
            return await pipeline.execute(raise_on_error=False)

    def _question(self, host: HostQueue, now: float) -> list[Any]:
        prefix = f"harvester:{{{host.name}}}:"
        keys = [f"{prefix}turns", f"{prefix}places", f"{prefix}window"]
        return [*keys, self._worker, *host.ask(now), CHANNEL, host.name]

    async def _beat(self) -> None:
        """Renews this worker's permits, asks for missing ones, drops idle hosts, and notices the end of the run."""
        while True:
            await asyncio.sleep(CHECK_S)
            now = monotonic()
            ending = is_ending(self._crawler)
            for host in list(self._hosts.values()):
                if ending:
                    self._stop(host)
                elif host.is_over(now):
                    del self._hosts[host.name]
                else:
                    host.adapt(self._limits_of(host.name))
                    host.beat(now)
                    self._serve(host)

    def _stop(self, host: HostQueue) -> None:
        while host.waiting:
            request = host.waiting.popleft()
            if not request.done():
                request.set_exception(RunEnding("the crawl is being stopped"))

    async def _listen(self) -> None:
        """Receives the pauses that hosts asked other workers for."""
        while True:
            with contextlib.suppress(RedisError, OSError):
                if self._redis:
                    async with self._redis.pubsub(ignore_subscribe_messages=True) as listener:
                        await listener.subscribe(CHANNEL)
                        async for message in listener.listen():
                            self._hear_of(message["data"])
            await asyncio.sleep(AHEAD_S)

    def _hear_of(self, message: bytes) -> None:
        duration, _, name = message.decode().partition(" ")
        host = self._hosts.get(name)
        if host is None:
            return
        if duration == "0":
            host.permits_are_free()
        elif host.pause(monotonic() + int(duration) / 1e6):
            self._on_pause(name, int(duration) / 1e6)
        self._serve(host)
