"""What the measurements run against, each in a process of its own: a Redis, the site, the proxy between."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis

from tests.chaos.servers import Valkey
from tests.ports import free_port

ROOT = Path(__file__).parents[2]


@contextmanager
def own_redis() -> Iterator[str]:
    """Address of a Redis with nothing in it, set up as harvester's private one is, on a port that a proxy can reach."""
    with TemporaryDirectory(prefix="harvester-bench-") as folder, Valkey(Path(folder), free_port()) as server:
        yield server.uri


@contextmanager
def module(name: str, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """`python -m name arguments`, which prints its ports when it is ready; stopped at the end."""
    command = [sys.executable, "-m", name, *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        try:
            assert process.stdout
            yield process, [int(port) for port in process.stdout.readline().split()]
        finally:
            process.terminate()


class Proxy:
    """The proxy before a Redis: its address, its delay and its counts."""

    def __init__(self, process: "subprocess.Popen[str]", ports: list[int]) -> None:
        self._process = process
        self.url = f"redis://127.0.0.1:{ports[0]}/0"

    def counts(self, delay_ms: float | None = None) -> dict[str, int]:
        """What passed since the last call; a delay holds from now on."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n" if delay_ms is None else f"{delay_ms}\n")
        found: dict[str, int] = json.loads(self._process.stdout.readline())
        return found

    def round_trip_ms(self, times: int = 200) -> float:
        """What a round trip takes, in the median."""
        with redis.Redis.from_url(self.url) as client:
            taken = []
            for _ in range(times):
                began = time.perf_counter()
                client.ping()
                taken.append(time.perf_counter() - began)
        return sorted(taken)[times // 2] * 1000


def redis_cpu(client: redis.Redis) -> float:
    """CPU seconds that Redis has used."""
    usage: dict[str, Any] = client.info("cpu")
    return float(usage["used_cpu_user"] + usage["used_cpu_sys"])


def redis_memory(client: redis.Redis) -> int:
    """Bytes that Redis says it uses."""
    return int(client.info("memory")["used_memory"])
