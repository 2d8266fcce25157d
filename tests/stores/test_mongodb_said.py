"""What people are told of MongoDB's errors: what happened, and nothing of the driver's insides."""

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError, ServerSelectionTimeoutError

from harvester.stores.mongodb import said, unavailable

TOPOLOGY = (
    "Timeout: 5.0s, Topology Description: <TopologyDescription id: 1, servers: [<ServerDescription ('db', 27017)>]>"
)


def test_no_description_of_the_topology_is_shown(free_port: int) -> None:
    uri = f"mongodb://127.0.0.1:{free_port}"
    with (
        MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=100) as client,
        pytest.raises(PyMongoError) as refused,
    ):
        client.server_info()
    assert "Topology" in str(refused.value), "the driver says it"
    assert said(refused.value) == f"127.0.0.1:{free_port}: [Errno 111] Connection refused"
    assert "Topology" not in str(unavailable(refused.value))


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (f"No servers found yet, {TOPOLOGY}", "No servers found yet"),
        (f"db:27017: timed out (configured timeouts: connectTimeoutMS: 5000.0ms), {TOPOLOGY}", "db:27017: timed out"),
        ("Authentication failed., full error: {'ok': 0.0, 'code': 18}", "Authentication failed"),
        ("two\nlines", "two lines"),
    ],
)
def test_an_error_of_the_driver_is_told_in_one_line(error: str, shown: str) -> None:
    assert said(ServerSelectionTimeoutError(error)) == shown
