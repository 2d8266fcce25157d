"""A RabbitMQ of Debian's package on loopback, with files of its own, that can be killed and started again."""

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import aio_pika
import pytest

from tests.ports import free_port

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_S = 120


class RabbitMQ:
    """`with RabbitMQ(folder) as broker: ...broker.url...`. It and its epmd end with the block."""

    def __init__(self, folder: Path) -> None:
        if not PROGRAM.exists():
            pytest.skip("RabbitMQ is not installed: apt-get install --no-install-recommends rabbitmq-server")
        folder.mkdir()
        self._folder = folder
        self._port, dist, epmd = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}/"
        (folder / "plugins").write_text("[].\n")
        (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self._port}\n")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"harvester{self._port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_DIST_PORT": str(dist),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        self._epmd_command = ["epmd", "-address", "127.0.0.1", "-port", str(epmd)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._epmd = subprocess.Popen(self._epmd_command, env=self._environment)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._epmd.terminate()
        self._epmd.wait()

    def start(self) -> None:
        with (self._folder / "out").open("ab") as out:
            self._process = subprocess.Popen(
                [str(PROGRAM)], env=self._environment, stdout=out, stderr=out, start_new_session=True
            )

    def kill(self) -> None:
        """With SIGKILL, and all that it has started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    async def connect(self) -> aio_pika.abc.AbstractConnection:
        """When it is up."""
        until = time.monotonic() + START_S
        while True:
            try:
                return await aio_pika.connect(self.url, timeout=10)
            except (OSError, aio_pika.exceptions.AMQPError):
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.2)

    async def bind(self, queue: str, exchange: str = "harvester", topic: str = "#") -> None:
        """As one who reads it would."""
        async with await self.connect() as connection:
            channel = await connection.channel()
            to = await channel.declare_exchange(exchange, aio_pika.ExchangeType.TOPIC, durable=True)
            declared = await channel.declare_queue(queue, durable=True)
            await declared.bind(to, topic)

    async def read(self, queue: str) -> list[aio_pika.abc.AbstractIncomingMessage]:
        """All that is in a queue now, in order; it is taken out."""
        found = []
        async with await self.connect() as connection:
            channel = await connection.channel()
            await channel.set_qos(1000)
            read = await channel.get_queue(queue)
            while message := await read.get(fail=False, no_ack=True):
                found.append(message)
        return found
