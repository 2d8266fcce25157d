"""Turns and places at hosts, shared by all workers that use one Redis: a host sees one crawler, not many.

What is called a host here is a site of the registry with all its hosts, or a host that is not registered.

A *turn* is a moment at which one request may leave; Redis spaces them, as the slowest of the workers wants it, and
counts those of a window. A *place* is one of the requests that a host may be answering at the same time; each worker
has a share of them, for as long as it is heard of. A *silence* is the time for which a host wants to be left alone;
one worker is told, all obey.

Requests wait here, in this process, and a worker asks Redis for many of them together. No turn is given more than
AHEAD_S before its time, or a second to a worker that is alone; so nobody acts on what was true long ago, and a
silence, or a slower pace, drops the turns that were given.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha1
from importlib.resources import files
from time import monotonic
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError, RedisError
from scrapy import signals
from scrapy.crawler import Crawler

from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.frontier.hosts import AHEAD_S, Answer, SharedHost
from harvester.shutdown import CHECK_S, Stopped, end, is_ending
from harvester.sites.politeness import Limits
from harvester.stores.lua import Script
from harvester.stores.redis import RedisPatience, connect, unavailable

logger = logging.getLogger(__name__)

CHANNEL = "harvester:silences"
"""Where a silence is told to those who hold turns. Messages: microseconds, a space, the host; 0: it has free places."""
LONG_S = 2.0
"""A silence that is longer is not waited for here by requests that can wait elsewhere."""
LEAVE_S = 2.0
"""How long the end of a run may take to give places back; they come back by themselves a little later."""


class Silenced(Exception):
    """The request should wait elsewhere: the host wants to be left alone, or too many wait for it here."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class SharedTurns:
    """This worker's turns and places at all hosts. `take` before a request, `leave` after it."""

    def __init__(
        self,
        crawler: Crawler,
        config: Config,
        limits_of: Callable[[str], Limits],
        on_silence: Callable[[str, float], None],
    ) -> None:
        self._crawler = crawler
        self._config = config
        self._limits_of = limits_of
        self._on_silence = on_silence
        self._patiently = RedisPatience(crawler, config)
        # The moments of those sent away are not further apart than this, so that they are here when the host recovers.
        self._usual_interval_s = 1 / (config.requests_per_second or 50)
        self._worker = uuid4().hex
        self._hosts: dict[str, SharedHost] = {}
        self._asking: set[SharedHost] = set()
        self._redis: Redis | RedisCluster | None = None
        self._exchange: asyncio.Task[None] | None = None
        self._background: list[asyncio.Task[None]] = []
        self._closed = False
        crawler.signals.connect(self.close, signals.spider_closed)

    async def take(self, name: str, *, patient: bool = True) -> None:
        """Waits for a place and a turn. Raises Stopped when the run ends before.

        Who is not patient gets a Silenced when the host begins to want a long silence, or does already; and when many
        wait for it, so that the requests of other hosts find no room in the downloader.
        """
        if self._closed or is_ending(self._crawler):
            raise Stopped("the crawl is being stopped")
        if not self._background:
            self._background = [asyncio.create_task(self._beat()), asyncio.create_task(self._listen())]
        host = self._host(name)
        host.adapt(self._limits_of(name))
        if not patient and host.is_crowded() and self._lacks_room():
            raise Silenced(host.away(monotonic(), self._usual_interval_s))
        turn = host.join(patient=patient)
        self._serve(host)
        while True:
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and not turn.exception():
                    self.leave(name)
                raise
            if host.silent_until <= monotonic():
                return
            turn = host.join(again=True, patient=patient)  # the silence began after the turn was given
            self._serve(host)

    def leave(self, name: str) -> None:
        """Gives the place back: the request has come to its end."""
        host = self._hosts[name]
        host.left(monotonic())
        self._serve(host)

    def is_silent(self, name: str) -> bool:
        """Whether the host wants to be left alone now."""
        return self._host(name).silent_until > monotonic()

    def silence(self, name: str, seconds: float) -> None:
        """The host asked this worker to wait; all are told."""
        host = self._host(name)
        if host.silence(monotonic() + seconds):
            host.untold = True
            self._on_silence(name, seconds)
            self._serve(host)

    async def close(self) -> None:
        """Nobody waits any more; the places go to other workers."""
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
                async with asyncio.timeout(LEAVE_S):
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

    def _host(self, name: str) -> SharedHost:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = SharedHost(name, self._limits_of(name))
        return host

    def _serve(self, host: SharedHost) -> None:
        """Lets go those whose turn it is, and sees to it that the others' comes."""
        now = monotonic()
        if (silence := host.silent_until - now) > LONG_S:
            host.send_away(Silenced(silence))
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

    def _serve_at(self, host: SharedHost, meant_at: float) -> None:
        host.was_late(monotonic() - meant_at)
        self._serve(host)

    async def _ask(self) -> None:
        """Exchanges until nobody has a question. What is asked while an answer is awaited travels together after it."""
        await asyncio.sleep(0)  # let the requests of this moment gather
        try:
            while self._asking:
                hosts, self._asking = list(self._asking), set()
                redis = await self._patiently(self._connected)
                await self._patiently(partial(self._send, redis, hosts))
                for host in hosts:
                    self._serve(host)
        except HarvesterError as error:
            self._give_up(error)
        except RedisError as error:
            self._give_up(unavailable(error))

    def _give_up(self, error: HarvesterError) -> None:
        if not is_ending(self._crawler):
            logger.error("%s", error)
            end(self._crawler, "service_error", error.exit_code)

    async def _connected(self) -> Redis | RedisCluster:
        redis = self._redis
        if redis is None:
            redis = self._redis = await asyncio.to_thread(connect, self._config)  # may have to start the private server
        return redis

    async def _send(self, redis: Redis | RedisCluster, hosts: list[SharedHost]) -> None:
        """One exchange about each of the hosts, all in one round trip."""
        asked_at = monotonic()
        questions = [self._question(host, asked_at) for host in hosts]
        script = _script()
        answers = await self._answers(redis, questions, "EVALSHA", script.sha)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            answers = await self._answers(redis, questions, "EVAL", script.text)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        heard_at = monotonic()
        for host, answer in zip(hosts, answers, strict=True):
            if host.hear(Answer(*answer), asked_at, heard_at):
                self._on_silence(host.name, host.silent_until - heard_at)

    async def _answers(
        self, redis: Redis | RedisCluster, questions: list[list[Any]], command: str, script: str
    ) -> list[Any]:
        if isinstance(redis, RedisCluster):  # its pipelines take no scripts
            calls = [redis.execute_command(command, script, 3, *question) for question in questions]
            return await asyncio.gather(*calls, return_exceptions=True)
        async with redis.pipeline(transaction=False) as pipeline:
            for question in questions:
                pipeline.execute_command(command, script, 3, *question)
            return await pipeline.execute(raise_on_error=False)

    def _question(self, host: SharedHost, now: float) -> list[Any]:
        prefix = f"harvester:{{{host.name}}}:"
        keys = [f"{prefix}turns", f"{prefix}places", f"{prefix}window"]
        return [*keys, self._worker, *host.ask(now), CHANNEL, host.name]

    async def _beat(self) -> None:
        """Keeps the places of this worker, asks for what it lacks, forgets idle hosts; notices the end of the run."""
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

    def _stop(self, host: SharedHost) -> None:
        while host.waiting:
            turn = host.waiting.popleft()
            if not turn.done():
                turn.set_exception(Stopped("the crawl is being stopped"))

    async def _listen(self) -> None:
        """Hears of silences that other workers were asked for."""
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
            host.places_are_free()
        elif host.silence(monotonic() + int(duration) / 1e6):
            self._on_silence(name, int(duration) / 1e6)
        self._serve(host)


@cache
def _script() -> Script:
    text = files("harvester.frontier").joinpath("lua", "turns.lua").read_text(encoding="utf-8")
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
