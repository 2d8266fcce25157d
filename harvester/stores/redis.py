"""Connects to the Redis that holds the frontier: the configured one (also behind Sentinels), or the private one."""

import asyncio
import contextlib
import platform
import threading
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis, Sentinel
from redis.asyncio.connection import UnixDomainSocketConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from harvester.config import Config, variable_of
from harvester.exceptions import ServiceError, UsageError
from harvester.formatting import shown, without_userinfo
from harvester.stores import servers
from harvester.stores.outage import Outage
from harvester.stores.servers import kinds

OPTIONS: dict[str, Any] = {
    "socket_timeout": 15.0,
    "socket_connect_timeout": 5.0,
    "client_name": "harvester",
    "retry": Retry(ConstantBackoff(0.1), 1),
}
"""Default options. After the timeout a silent server counts as unreachable. The single retry is for a connection that
was closed while it was idle; Outage handles longer waits."""
SENTINEL_PORT = 26379
_REFUSALS = (AuthenticationError, AuthenticationWrongNumberOfArgsError, AuthorizationError, NoPermissionError)
_PASSING = (ConnectionError, TimeoutError, ReadOnlyError, OutOfMemoryError, OSError)
_PASSING_WORDS = ("MISCONF", "NOREPLICAS", "BUSY ", "MASTERDOWN", "UNBLOCKED")
"""Beginnings of errors without a class: the disk is full, too few replicas, a foreign script runs, a failover."""
_FORMS = (
    "redis://user:password@host:6379/0, rediss://... (TLS), unix:///path/to/socket,"
    " or redis+sentinel://host:26379,host:26379/service/0 (% signs in a password as %25; TLS there as rediss+sentinel)"
)
_SETTING = "redis_url"
MAX_PATH_CHARACTERS = 4096
"""Number of characters of the longest path that Linux allows."""


def connect(config: Config) -> Redis:
    """Returns a client for use on an event loop. Starts the private server if none is configured."""
    return client_of(servers.redis_url(config))


def client_of(url: str, whose: str = "", like: str = _FORMS) -> Redis:
    """Returns a client of the server at an address.

    Raises UsageError for an invalid address; the message names `whose` address it is.
    """
    whose = whose or variable_of(_SETTING)
    scheme, _, rest = url.partition("://")
    try:
        match scheme:
            case "redis" | "rediss" | "unix":
                return _single(url)
            case "redis+sentinel" | "rediss+sentinel":
                return _behind_sentinel(rest, tls=scheme.startswith("rediss"))
    except (ValueError, TypeError) as error:
        said = str(error).partition("'")[0].rstrip(": ")  # the quoted part may belong to the password
        raise UsageError(f"{whose} cannot be used: {said}. Give an address like {like}.") from None
    raise UsageError(
        f"{whose} cannot be used: harvester does not know addresses of the kind"
        f" {scheme[:20] if rest else 'without ://'!r}. Give one like {like}."
    )


def check_address(config: Config) -> None:
    """Raises UsageError if the configured address is invalid, even if nothing uses it. Does not connect."""
    if config.redis_url:
        client_of(config.redis_url.get_secret_value())


def named(config: Config) -> str:
    """Returns the server's name for people, without its password."""
    if not config.redis_url:
        return f"the private one in {shown(str(config.state_dir.absolute()), MAX_PATH_CHARACTERS)} on {platform.node()}"
    return without_userinfo(config.redis_url.get_secret_value().partition("?")[0])


def check(config: Config) -> None:
    """Sends Redis a request before other work starts. Raises ServiceError or UsageError, with a remedy."""
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            asyncio.run(_examine(config))
        except BaseException as error:  # noqa: BLE001  raised again below
            failures.append(error)

    # In a thread, since the caller may already have an event loop.
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    for failure in failures:
        if isinstance(failure, (RedisError, OSError)):
            raise unavailable(failure) from None
        raise failure


def unavailable(error: Exception) -> ServiceError:
    """Returns the error that ends a command when Redis fails."""
    what = "refuses harvester" if isinstance(error, (*_REFUSALS, ResponseError)) else "cannot be reached"
    remedy = f"Check {variable_of(_SETTING)} and that the server runs, or unset it: harvester then runs a private one."
    return ServiceError(f"Redis {what}: {_said(error)}. {remedy}")


class _CancellableMixin:
    """Sends commands without asyncio.wait_for, which loses cancellations in Python 3.11, so the task would continue."""

    socket_timeout: float | None

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        timeout, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(timeout):
                await super().send_packed_command(command, check_health)  # type: ignore[misc]
        finally:
            self.socket_timeout = timeout


class _UnixConnection(UnixDomainSocketConnection):
    """Logs in after it has connected, as the other kinds of connections do.

    redis-py's class logs in while it connects, and turns every refusal into a ConnectionError, which looks like an
    outage.
    """

    async def _connect(self) -> None:
        async with asyncio.timeout(self.socket_connect_timeout):
            self._reader, self._writer = await asyncio.open_unix_connection(path=self.path)


def _cancellable(kind: Any) -> Any:
    """Returns a subclass of a connection class that allows tasks to be cancelled."""
    return type(kind.__name__, (_CancellableMixin, kind), {})


def _single(url: str) -> Redis:
    options = parse_url(url)
    if not url.startswith("unix"):
        _check_database(urlsplit(url).path.strip("/"))
    client = Redis.from_url(url, **{name: value for name, value in OPTIONS.items() if name not in options})
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)  # raises for unknown options
    unix = pool.connection_class is UnixDomainSocketConnection
    pool.connection_class = _cancellable(_UnixConnection if unix else pool.connection_class)
    return client


class _BehindSentinel(Redis):
    """A client that also closes its connections to the Sentinels."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        pool: Any = self.connection_pool
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def _behind_sentinel(rest: str, *, tls: bool) -> Redis:
    login, nodes, path, options = _parts(rest, SENTINEL_PORT)
    service, _, database = path.partition("/")
    if not service:
        raise ValueError("it lacks the name of the service that the Sentinels watch, after the last host")
    sentinel_options = {name: value for name, value in options.items() if name.startswith("ssl_")}
    for name in ("username", "password"):
        if value := options.pop(f"sentinel_{name}", None):
            sentinel_options[name] = value
    if tls:
        options["ssl"] = sentinel_options["ssl"] = True
    options = {**OPTIONS, **login, **options, "db": _check_database(database)}
    for name in ("socket_timeout", "socket_connect_timeout"):
        sentinel_options[name] = options["socket_connect_timeout"]
    sentinel: Any = Sentinel(nodes, sentinel_kwargs=sentinel_options, **options)  # type: ignore[no-untyped-call]
    client: Redis = sentinel.master_for(service, redis_class=_BehindSentinel)
    client.connection_pool.connection_class = _cancellable(client.connection_pool.connection_class)
    return client


def _parts(rest: str, default_port: int) -> tuple[dict[str, Any], list[tuple[str, int]], str, dict[str, Any]]:
    """Returns login, hosts with ports, path and options of an address that may name several hosts."""
    address, _, query = rest.partition("?")
    place, _, path = address.partition("/")
    user, _, hosts = place.rpartition("@")
    nodes = []
    for each in hosts.split(","):
        parsed = urlsplit(f"//{each}")
        if not parsed.hostname:
            raise ValueError("it lacks a host")
        nodes.append((parsed.hostname, parsed.port or default_port))
    login = {k: v for k, v in parse_url(f"redis://{user}@host").items() if k in ("username", "password")}
    options = {k: v for k, v in parse_url(f"redis://host?{query}").items() if k not in ("host", "port", "db")}
    return login, nodes, path, options


def _check_database(path: str) -> int:
    if path and not path.isdecimal():
        raise ValueError("the part after the host must be the number of a database, like /0")
    return int(path or 0)


async def _examine(config: Config) -> None:
    redis: Any = connect(config)
    try:
        await redis.ping()
        if problem := problem_of(await redis.info(), config):
            raise ServiceError(problem)
        await redis.eval("return cmsgpack.pack(redis.call('TIME'))", 1, "harvester")
    finally:
        with contextlib.suppress(RedisError, OSError):
            await redis.aclose()


def problem_of(about: dict[str, Any], config: Config) -> str:
    """Returns the reason why requests would not be safe on a server with this INFO; empty if they are safe."""
    mode = about.get("redis_mode") or about.get("server_mode")
    policy = str(about.get("maxmemory_policy", ""))
    if mode == "sentinel":
        return f"{variable_of(_SETTING)} names a Sentinel: write it as redis+sentinel://host:port/service."
    if mode == "cluster":
        return (
            f"{variable_of(_SETTING)} names a node of a cluster, which harvester does not use: give it its own Redis."
        )
    if about.get("role") == "slave":
        return f"{variable_of(_SETTING)} names a replica, which takes no requests: give the address of its primary."
    if about.get("maxmemory") and policy.startswith("allkeys"):
        return (
            f"Redis throws keys away when it is full (maxmemory-policy {policy}), and requests would be lost with"
            " them: set maxmemory-policy to noeviction. A full Redis then makes workers wait."
        )
    if forgets(about) and not config.redis_may_forget:
        return (
            "Redis keeps no log of what it is told (appendonly no), and loses what is to be fetched when it ends: set"
            " `appendonly yes`, or HARVESTER_REDIS_MAY_FORGET=yes if that may be or the server keeps it otherwise."
        )
    return ""


def forgets(about: dict[str, Any]) -> bool:
    """Returns True if a server with this INFO loses data when it ends. Snapshots are minutes old."""
    return not about.get("aof_enabled")


def forget_log(config: Config) -> bool:
    """Makes Redis rewrite its log, without deleted data. Returns True if Redis does so.

    A server may refuse this to its users, or may already be rewriting the log.
    """

    async def ask() -> bool:
        redis: Any = connect(config)
        try:
            await redis.bgrewriteaof()
        except (RedisError, OSError):
            return False
        finally:
            with contextlib.suppress(RedisError, OSError):
                await redis.aclose()
        return True

    if not config.redis_url and not (config.state_dir / kinds.Redis.name).is_dir():
        return False  # a private server that was never started has no log
    return asyncio.run(ask())


class RedisOutage(Outage):
    """Turns a Redis outage into a pause, until the server is up, has loaded its data, or has room."""

    SERVER = "Redis"
    ERRORS = (RedisError, OSError)
    start_private = staticmethod(servers.redis_url)

    def refusal(self, error: Exception) -> ServiceError | None:
        return unavailable(error) if isinstance(error, _REFUSALS) else None

    def passes(self, error: Exception) -> bool:
        passing = (*_PASSING, ServiceError)
        return isinstance(error, passing) or str(error).startswith(_PASSING_WORDS)

    def condition(self, error: Exception) -> str:
        if isinstance(error, OutOfMemoryError):
            return "Redis is full"
        if isinstance(error, BusyLoadingError):
            return "Redis is starting"
        if isinstance(error, ReadOnlyError):
            return "Redis is failing over"
        return "Redis cannot be reached"

    def said(self, error: Exception) -> str:
        return _said(error)

    def surrender(self, error: Exception, *, reached: bool) -> ServiceError:
        return ServiceError(f"Redis cannot be used, and the crawl was told to stop: {_said(error)}")


def _said(error: Exception) -> str:
    """Returns the error's text without the position in a script."""
    return str(error).partition(" script:")[0].rstrip(".") or type(error).__name__
