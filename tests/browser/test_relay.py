"""Why the browser's connections were not made is told as it is told of all others, and no site is blamed for us."""

import asyncio
import errno
import socket
import threading
from collections.abc import Iterator

import pytest
from scrapy.utils.test import get_crawler

from harvester.browser import relay as relay_module
from harvester.browser.relay import BrowserRelay
from harvester.config import Config
from harvester.download import dns
from harvester.download.dns import Address
from harvester.outcomes import Outcome, classify_exception

_gate = threading.Event()


def _look_up(host: str, family: socket.AddressFamily) -> list[Address]:
    if host.startswith("full"):
        raise OSError(errno.EMFILE, "too many open files")
    if host.startswith("slow"):
        assert _gate.wait(240)
    if host.startswith("here"):
        return [(socket.AF_INET, "127.0.0.1")]
    raise socket.gaierror(socket.EAI_NONAME, "no such name")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A resolver of the test's own."""
    _gate.clear()
    monkeypatch.setattr(dns, "ask_system", _look_up)
    yield
    _gate.set()


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("host", "outcome"),
    [
        ("full.example", Outcome.LOCAL),
        ("slow.example", Outcome.TIMEOUT),
        ("nobody.example", Outcome.DNS),
        ("here.example", Outcome.POLICY_DENIED),
        ("here.own", Outcome.NETWORK),
    ],
)
async def test_a_connection_that_is_not_made_has_an_outcome(
    host: str, outcome: Outcome, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host.startswith("slow"):
        monkeypatch.setattr(relay_module, "CONNECT_S", 0.01)
    relay = BrowserRelay(get_crawler(), Config(allow_private_hosts=False, private_hosts="here.own"))
    _, _, port = (await relay.start()).rpartition(":")
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        name = host.encode()
        writer.write(b"\5\1\0" + b"\5\1\0\3" + bytes([len(name)]) + name + free_port.to_bytes(2, "big"))
        assert await reader.readexactly(3) == b"\5\0\5"
        assert await reader.readexactly(1) == b"\4", "it is refused"
        writer.close()
    finally:
        await relay.close()
    fault = relay.fault_of(f"http://{host}:{free_port}/")
    assert fault
    assert classify_exception(fault).outcome is outcome
