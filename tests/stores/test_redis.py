"""The kinds of Redis that harvester can use, each tried for real, and the sentences for those it cannot."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr
from pymongo.errors import ConnectionFailure
from redis import Redis as SyncRedis
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, ConnectionError, OutOfMemoryError, ReadOnlyError, ResponseError
from scrapy.crawler import Crawler

from harvester.cli import doctor
from harvester.config import Config
from harvester.exceptions import ServiceError, UsageError
from harvester.frontier.messages import Done
from harvester.frontier.store import Frontier
from harvester.stores.mongodb import MongoOutage
from harvester.stores.redis import RedisOutage, check, client_of, connect, forget_log
from tests.frontier.pushes import push
from tests.ports import free_port
from tests.stores.valkeys import tls_in_front, valkey


def _config(url: str) -> Config:
    return Config(redis_url=SecretStr(url))


async def _assert_works(url: str) -> None:
    """Every command that the frontier uses works at this address."""
    await asyncio.to_thread(check, _config(url))
    redis = connect(_config(url))
    frontier = Frontier(redis, "spider")
    try:
        told = await frontier.exchange("w", [push(n, job="j", site=f"s{n % 3}") for n in range(1000)], wanted=10)
        told = await frontier.exchange("w", [Done(leased.id) for leased in told.leased], wanted=10)
        assert len(told.leased) == 10
        status = await frontier.status()
        assert (status.done, status.leased, status.balanced) == (10, 10, True)
        assert await frontier.look_up(1, "j") is not None
        assert await frontier.look_up(5000, "j") is None
        assert (await frontier.dead(), await frontier.replay(), await frontier.reap("w")) == ([], 0, 0)
        assert await frontier.forget([1, 2], "j") == 2
        await frontier.leave("w")
        assert await frontier.drop() == 990
    finally:
        await redis.aclose()


async def test_a_server_with_a_password_works(tmp_path: Path) -> None:
    with valkey(tmp_path, "--requirepass", "s:cr/t@") as port:
        await _assert_works(f"redis://:s%3Acr%2Ft%40@127.0.0.1:{port}/3")
        for login in ("", ":wrong-one@"):
            with pytest.raises(ServiceError, match="Redis refuses harvester") as caught:
                check(_config(f"redis://{login}127.0.0.1:{port}/3"))
            assert "HARVESTER_REDIS_URL" in str(caught.value)
            assert "wrong-one" not in str(caught.value)


async def test_a_socket_file_works(tmp_path: Path) -> None:
    with valkey(tmp_path, "--unixsocket", str(tmp_path / "socket")):
        await _assert_works(f"unix://{tmp_path}/socket?db=1")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1, signed by itself; its key is beside it."""
    path = tmp_path / "certificate.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", str(tmp_path / "key.pem"), "-out", str(path)], check=True, capture_output=True
    )
    return path


async def test_tls_works_and_a_certificate_that_nobody_signed_is_refused(tmp_path: Path, certificate: Path) -> None:
    with valkey(tmp_path, "--requirepass", "secret") as plain:
        async with tls_in_front(plain, certificate, tmp_path / "key.pem") as port:
            await _assert_works(f"rediss://:secret@127.0.0.1:{port}/0?ssl_ca_certs={certificate}")
            with pytest.raises(ServiceError, match="certificate"):
                await asyncio.to_thread(check, _config(f"rediss://:secret@127.0.0.1:{port}/0"))
            with pytest.raises(ServiceError, match="HARVESTER_REDIS_URL"):
                await asyncio.to_thread(check, _config(f"redis://:secret@127.0.0.1:{port}/0"))


def test_a_node_of_a_cluster_is_refused(tmp_path: Path) -> None:
    with (
        valkey(tmp_path, "--cluster-enabled", "yes") as port,
        pytest.raises(ServiceError, match="cluster"),
    ):
        check(_config(f"redis://127.0.0.1:{port}/0"))


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[int, int, int]]:
    """Ports of a Sentinel, of the primary that it watches, and of its replica."""
    replica = free_port()
    with (
        valkey(tmp_path) as primary,
        valkey(tmp_path, "--replicaof", "127.0.0.1", str(primary), port=replica),
        valkey(tmp_path, sentinel=True) as sentinel,
        SyncRedis(port=sentinel) as redis,
    ):
        redis.sentinel_monitor("crawl", "127.0.0.1", primary, 1)
        redis.sentinel_set("crawl", "down-after-milliseconds", "60000")
        deadline = time.monotonic() + 240
        while redis.sentinel_master("crawl")["num-slaves"] != 1:
            assert time.monotonic() < deadline, "the Sentinel did not find the replica"
            time.sleep(0.1)
        yield sentinel, primary, replica


async def test_a_server_behind_a_sentinel_works_also_after_a_failover(watched: tuple[int, int, int]) -> None:
    sentinel, primary, replica = watched
    nobody = free_port()
    url = f"redis+sentinel://127.0.0.1:{nobody},127.0.0.1:{sentinel}/crawl/0"
    await _assert_works(url)
    with pytest.raises(ServiceError, match=r"redis\+sentinel://"):
        check(_config(f"redis://127.0.0.1:{sentinel}"))
    with pytest.raises(ServiceError, match="replica"):
        check(_config(f"redis://127.0.0.1:{replica}"))
    with pytest.raises(ServiceError, match="another"):
        check(_config(f"redis+sentinel://127.0.0.1:{sentinel}/another"))
    redis = client_of(url)
    frontier, patiently = Frontier(redis, "spider"), RedisOutage(_crawler(), _config(url))
    await frontier.exchange("w", [push(1)])
    with SyncRedis(port=primary) as old, SyncRedis(port=sentinel) as watcher:
        watcher.sentinel_set("crawl", "down-after-milliseconds", "500")
        assert old.wait(1, 30_000) == 1
        old.shutdown(nosave=True, now=True)
    told = await patiently(lambda: frontier.exchange("w", [], wanted=1))
    assert [leased.id for leased in told.leased] == ["1"]
    await redis.aclose()


async def test_a_worker_goes_on_when_redis_was_killed_and_is_started_again(tmp_path: Path) -> None:
    port = free_port()
    config, durable = _config(f"redis://127.0.0.1:{port}/0"), ("--appendonly", "yes")
    redis, crawler = connect(config), _crawler()
    frontier, patiently = Frontier(redis, "spider"), RedisOutage(crawler, config)
    with valkey(tmp_path, *durable, port=port):
        told = await frontier.exchange("w", [push(n) for n in range(5000)], wanted=10)
    operations = [Done(leased.id) for leased in told.leased]
    task = asyncio.create_task(patiently(lambda: frontier.exchange("w", operations, wanted=10)))
    async with asyncio.timeout(240):
        while True:
            if cast("Any", crawler).stats.values:
                break
            await asyncio.sleep(0.01)
    with valkey(tmp_path, *durable, port=port):
        told = await task
        assert (told.stale, len(told.leased), told.held) == (0, 10, 10)
        status = await frontier.status()
        assert (status.queued, status.done, status.balanced) == (5000, 10, True)
    await redis.aclose()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:6379", "without ://"),
        ("http://localhost:6379", "'http'"),
        ("mongodb://u:secret@localhost", "'mongodb'"),
        ("redis://localhost:secret", "[Pp]ort"),
        ("redis://localhost:6379/secret", "database"),
        ("redis://localhost:6379/0?colour=secret", "colour|unexpected|keyword"),
        ("redis+sentinel://localhost:26379", "service"),
        ("redis+sentinel:///service", "host"),
        ("redis+sentinel://localhost:26379/service/secret", "database"),
        ("redis+cluster://localhost:6379", "'redis\\+cluster'"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_a_sentence(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        connect(_config(url))
    assert "redis+sentinel://" in str(caught.value), "the kinds that can be used are named"
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_named(free_port: int) -> None:
    with pytest.raises(ServiceError, match="HARVESTER_REDIS_URL"):
        check(_config(f"redis://127.0.0.1:{free_port}/0"))


def test_a_server_that_throws_keys_away_is_refused(tmp_path: Path) -> None:
    options = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with valkey(tmp_path, *options) as port, pytest.raises(ServiceError, match=r"maxmemory-policy.*noeviction"):
        check(_config(f"redis://127.0.0.1:{port}"))


@pytest.mark.parametrize("kept", [("--save", ""), ("--save", "60", "1")], ids=["nothing", "snapshots"])
def test_a_server_that_keeps_no_log_is_refused_unless_it_may_forget(tmp_path: Path, kept: tuple[str, ...]) -> None:
    with valkey(tmp_path, "--appendonly", "no", *kept) as port:
        config = _config(f"redis://127.0.0.1:{port}")
        with pytest.raises(ServiceError, match=r"`appendonly yes`.*HARVESTER_REDIS_MAY_FORGET=yes"):
            check(config)
        check(config.model_copy(update={"redis_may_forget": True}))
        assert doctor.redis(config).level is doctor.Level.FAIL
        assert doctor.redis(config.model_copy(update={"redis_may_forget": True})).level is doctor.Level.WARN


def _crawler(*, closing: bool = False) -> Crawler:
    stats: dict[str, Any] = {}
    paused: list[bool] = []
    engine = SimpleNamespace(
        running=True,
        paused=paused,
        pause=lambda: paused.append(True),
        unpause=lambda: paused.append(False),
        _slot=SimpleNamespace(closing="finished" if closing else None),
    )
    crawler = _Crawler()
    crawler.stats, crawler.engine = SimpleNamespace(set_value=stats.__setitem__, values=stats), engine
    return cast("Crawler", crawler)


class _Crawler(SimpleNamespace):
    """As much of a crawler as RedisOutage uses."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionError("Connection refused"), "reached"),
        (BusyLoadingError("Valkey is loading"), "starting"),
        (ReadOnlyError("You can't write against a replica"), "failing over"),
        (OutOfMemoryError("command not allowed"), "full"),
        (ResponseError("MISCONF Errors writing to the AOF file"), "reached"),
    ],
)
async def test_an_outage_is_a_pause_that_is_told_once(
    error: Exception, said: str, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    crawler: Any = _crawler()
    patiently, failures = RedisOutage(crawler, _config(redis_url)), [error, error]

    async def operation() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert await patiently(operation) == "done"
    messages = [record.getMessage() for record in caplog.records]
    assert [said in message for message in messages] == [True, False], "how it is away, and that it is back"
    assert all("Redis" in message for message in messages)
    assert crawler.engine.paused == [True, False]
    assert crawler.stats.values == {"harvester/waiting_for/redis": 0}


async def test_a_crawl_goes_on_when_the_last_server_that_was_away_is_back(
    redis_url: str, mongodb_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    crawler: Any = _crawler()
    config = Config(redis_url=SecretStr(redis_url), mongodb_uri=SecretStr(mongodb_uri))
    mongodb_is_back, redis_failures = asyncio.Event(), [ConnectionError("Connection refused")]

    async def ask_mongodb() -> None:
        if not mongodb_is_back.is_set():
            raise ConnectionFailure("Connection refused")

    async def ask_redis() -> None:
        if redis_failures:
            raise redis_failures.pop()

    mongodb = asyncio.create_task(MongoOutage(crawler, config)(ask_mongodb))
    await asyncio.sleep(0)
    await RedisOutage(crawler, config)(ask_redis)
    assert False not in crawler.engine.paused
    mongodb_is_back.set()
    await mongodb
    assert crawler.engine.paused[-1] is False
    assert crawler.engine.paused.count(False) == 1
    assert [message.split()[0] for message in caplog.messages[-2:]] == ["Redis", "MongoDB"]


async def test_a_crawl_that_is_stopped_during_an_outage_does_not_wait_for_its_end(redis_url: str) -> None:
    patiently = RedisOutage(_crawler(closing=True), _config(redis_url))

    async def operation() -> None:
        raise ConnectionError("Connection refused")

    for _ in range(2):
        with pytest.raises(ServiceError, match="stop: Connection refused"):
            await patiently(operation)


async def test_what_is_no_outage_is_not_waited_for(tmp_path: Path) -> None:
    with valkey(tmp_path, "--requirepass", "secret") as port:
        url = f"redis://127.0.0.1:{port}"
        async with Redis.from_url(url) as redis:
            with pytest.raises(ServiceError, match="Redis refuses harvester"):
                await RedisOutage(_crawler(), _config(url))(redis.ping)
        async with Redis.from_url(url, password="secret") as redis:
            await redis.set("key", "text")
            with pytest.raises(ResponseError, match="not an integer"):
                await RedisOutage(_crawler(), _config(url))(lambda: redis.incrby("key"))


async def test_a_task_that_asks_redis_can_be_cancelled_at_any_moment(redis_url: str) -> None:
    redis: Any = client_of(redis_url)

    async def ask() -> None:
        while True:
            await redis.ping()

    for delay in range(40):
        task = asyncio.create_task(ask())
        await asyncio.sleep(delay * 0.0003)
        task.cancel()
        _, unheard = await asyncio.wait([task], timeout=240)
        if unheard:
            task.cancel()
        assert not unheard, "the task goes on"
    await redis.aclose()


def test_the_log_of_redis_holds_nothing_of_what_is_no_more_once_it_is_forgotten(tmp_path: Path) -> None:
    with valkey(tmp_path) as port, SyncRedis(port=port) as redis:
        url = f"redis://127.0.0.1:{port}/0"
        redis.set("key", "words of somebody")
        redis.delete("key")

        def log() -> bytes:
            return b"".join(path.read_bytes() for path in tmp_path.rglob("*.aof"))

        assert b"words of somebody" in log()
        assert forget_log(_config(url))
        until = time.monotonic() + 60
        while b"words of somebody" in log() and time.monotonic() < until:
            time.sleep(0.05)
        assert b"words of somebody" not in log()
    assert not forget_log(_config(url)), "it is not there any more"
    assert not forget_log(Config(state_dir=tmp_path / "never begun"))
