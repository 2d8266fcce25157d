"""Of a worker of this machine it is known when its process has ended; its requests go to others at once."""

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from harvester.frontier.workers import is_gone, own_name

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a machine is known by what /proc says")


def named(pid: int) -> str:
    """A worker of this machine that is that process."""
    host, _, token, machine = own_name().split(":")
    return f"{host}:{pid}:{token}:{machine}"


def test_a_process_that_runs_is_not_gone_and_one_that_has_ended_is() -> None:
    assert own_name() != own_name()
    assert not is_gone(own_name())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not is_gone(named(process.pid))
        process.kill()
        until = time.monotonic() + 60
        while not is_gone(named(process.pid)):
            assert time.monotonic() < until, "a zombie does nothing any more"
        process.wait()
    assert is_gone(named(process.pid))


@pytest.mark.parametrize(
    "name_of",
    [
        lambda name: name.rpartition(":")[0] + ":0123abcd",  # another machine, or this one before it was restarted
        lambda name: name.rpartition(":")[0] + ":",
        lambda name: name.rpartition(":")[0],
        lambda name: "worker-1",
        lambda name: "",
        lambda name: "host:x:token:" + name.rpartition(":")[2],
    ],
)
def test_of_others_nothing_is_known(name_of: Callable[[str], str]) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert is_gone(named(process.pid))
    assert not is_gone(name_of(named(process.pid)))
