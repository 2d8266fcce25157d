"""A Valkey of the test's own, to be killed and started again on its data, as tests/crash/mongod.py has a MongoDB."""

import shutil
import signal

from redis import Redis as Client
from redis import RedisError

from harvester.stores.servers.kinds import Redis
from tests.crash.mongod import Mongod


class Valkey(Mongod):
    """`with Valkey(folder, port) as server: ...server.uri...`"""

    server = Redis()
    address = "redis://127.0.0.1:{port}/0"
    loopback = ("--bind", "127.0.0.1")

    def answers(self) -> bool:
        """Whether it is ready: it refuses commands while it reads its file."""
        with Client.from_url(self.uri) as client:
            try:
                return bool(client.ping())
            except RedisError:
                return False

    def lose(self) -> None:
        """It is killed, and starts again with nothing."""
        self.end(signal.SIGKILL)
        shutil.rmtree(self._data)
        self.start()
