"""A SOCKS5 proxy on loopback that connects for the browser, so that the browser never reaches a private network.

Chromium looks up names itself, follows redirects, opens sockets and prefetches without asking us. All connections go
through this proxy, and cannot bypass it.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, DownloadTimeoutError, IgnoreRequest

from harvester.config import Config
from harvester.download.addresses import permitted
from harvester.download.dns import CachingResolver

logger = logging.getLogger(__name__)

CONNECT_S = 20.0
MOST_FAULTS = 1000
"""Maximum number of hosts with a saved connection error."""
_HELLO, _REFUSED = b"\x05\x00", b"\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00"
_CONNECTED = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
_CHUNK_BYTES = 65_536


class BrowserRelay:
    """A relay between `start` and `close`."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._resolver = CachingResolver.of(crawler)
        self._config = config
        self._stats = crawler.stats
        self._faults: dict[tuple[str, int], Exception] = {}
        self._server: asyncio.Server | None = None
        self._tunnels: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Starts the relay. Returns its address for Chromium."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"socks5://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Ends the relay, with open connections."""
        if self._server is not None:
            self._server.close()
        for tunnel in self._tunnels:
            tunnel.cancel()
        if self._tunnels:
            await asyncio.wait(self._tunnels)

    def fault_of(self, url: str) -> Exception | None:
        """Returns the reason why a connection failed. The browser reports only that its proxy failed."""
        parts = urlsplit(url)
        return self._faults.get((parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tunnels.add(task)
        task.add_done_callback(self._tunnels.discard)
        try:
            there = await self._connect(*await _asked(reader, writer))
            if there is None:
                writer.write(_REFUSED)
                await writer.drain()
                return
            writer.write(_CONNECTED)
            try:
                await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
            finally:
                there[1].close()
        except (OSError, EOFError, ValueError) as error:  # one broken connection
            logger.debug("A connection of the browser broke off: %r", error)
        finally:
            writer.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._connect_to_one(host, port)
        except IgnoreRequest as error:
            self._stats.inc_value("harvester/browser/private")
            fault: Exception = error
        except socket.gaierror as error:
            fault = CannotResolveHostError(str(error))
        except TimeoutError:
            fault = DownloadTimeoutError(f"connecting took longer than {CONNECT_S:g} seconds")
        except OSError as error:  # its number identifies a fault of this machine
            fault = error
        self._faults[host, port] = fault
        while len(self._faults) > MOST_FAULTS:
            del self._faults[next(iter(self._faults))]
        return None

    async def _connect_to_one(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to the first address of the host that answers. Raises OSError, IgnoreRequest."""
        try:
            addresses = [str(ip_address(host))]
        except ValueError:
            addresses = [each["host"] for each in await self._resolver.resolve(host, port, socket.AF_UNSPEC)]
        failure: OSError = socket.gaierror(socket.EAI_NONAME, f"{host} has no address")
        for address in permitted(host, port, addresses, self._config):
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                failure = error
        raise failure


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
    """Returns the host and port that a client asks for (RFC 1928). Raises ValueError, EOFError."""
    _, methods = await reader.readexactly(2)
    await reader.readexactly(methods)
    writer.write(_HELLO)
    version, command, _, kind = await reader.readexactly(4)
    if (version, command) != (5, 1):
        raise ValueError("no request for a connection")
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
    elif kind in (1, 4):
        host = str(ip_address(await reader.readexactly(4 if kind == 1 else 16)))
    else:
        raise ValueError("no kind of address")
    return host.lower(), struct.unpack("!H", await reader.readexactly(2))[0]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def through(relay: str) -> Iterator[str]:
    """Yields the arguments that make Chromium connect through the relay only, also to this machine."""
    yield f"--proxy-server={relay}"
    yield "--proxy-bypass-list=<-loopback>"
    yield "--force-webrtc-ip-handling-policy=disable_non_proxied_udp"
