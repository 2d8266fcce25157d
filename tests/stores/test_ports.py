"""Where the platform has no Unix sockets, private servers listen on loopback and ask for the same secret."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from redis import Redis
from redis.exceptions import AuthenticationError

from harvester.config import Config
from harvester.stores import servers
from harvester.stores.servers import state
from harvester.stores.servers.kinds import SERVERS
from harvester.stores.servers.state import ServerState, running_in


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """A platform without Unix sockets, and a state folder of the test's own."""
    monkeypatch.setattr(state, "has_unix_sockets", lambda: False)
    config = Config(state_dir=tmp_path.resolve() / "state")
    before = set(servers.membership._connections)
    yield config
    for name in SERVERS:
        folder = config.state_dir / name
        if connection := servers.membership._connections.pop(folder, None):
            connection.close()
        if supervisor := running_in(folder, ServerState.read(folder).supervisor_pid):
            supervisor.terminate()
            supervisor.wait(60)
    assert set(servers.membership._connections) == before


def test_servers_on_ports_answer_nobody_without_the_secret(config: Config) -> None:
    folder = config.state_dir / "valkey"
    folder.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as other:  # someone else listens on the port of the last time
        taken = int(other.getsockname()[1])
        ServerState(server_port=taken).write(folder)
        url = servers.redis_url(config)
    port = ServerState.read(folder).server_port
    assert url.startswith("redis://:")
    assert url.endswith(f"@127.0.0.1:{port}/0")
    assert port not in (0, taken)
    with Redis.from_url(url) as client:
        assert client.set("a", 1)
    with Redis(port=port) as stranger, pytest.raises(AuthenticationError):
        stranger.get("a")

    uri = servers.mongodb_uri(config)
    port = ServerState.read(config.state_dir / "mongodb").server_port
    with MongoClient[dict[str, int]](uri) as admitted:
        admitted["test"]["values"].insert_one({"value": 1})
    with MongoClient[dict[str, int]](f"mongodb://127.0.0.1:{port}/?directConnection=true") as unknown:
        for forbidden in (
            lambda: unknown["test"]["values"].find_one(),
            lambda: unknown.admin.command("createUser", "mallory", pwd="x", roles=["root"]),
        ):
            with pytest.raises(OperationFailure, match="requires authentication"):
                forbidden()

    for name in SERVERS:
        with socket.create_connection(
            ("127.0.0.1", ServerState.read(config.state_dir / name).supervisor_port)
        ) as asking:
            asking.settimeout(30)
            asking.sendall(b"?\n")
            assert asking.recv(100) == b"", "the supervisor told a stranger something"
