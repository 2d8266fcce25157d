"""A Valkey of the test's own, to be killed and started again on its data, as tests/crash/mongod.py has a MongoDB."""

from harvester.services.servers import Redis
from tests.crash.mongod import Mongod


class Valkey(Mongod):
    """`with Valkey(folder, port) as server: ...server.uri...`"""

    server = Redis()
