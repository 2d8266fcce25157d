"""Another user of the machine reads nothing, writes nothing and gets no answer, whatever the umask was."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis

from harvester.stores.servers.state import ServerState
from tests.stores.conftest import Place

AS_ROOT = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux can become another user"
)


@pytest.fixture
def reachable(tmp_path: Path) -> None:
    """Others may enter the folders above the test's own, so that it is ours alone that keep them out."""
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)


@AS_ROOT
@pytest.mark.usefixtures("reachable")
def test_another_user_cannot_read_write_or_connect_even_with_umask_000(place: Place) -> None:
    data = place.state_dir.parent / "data"
    user = place.user("valkey", umask=0)
    other = place.user("mongodb", umask=0)
    redis, mongodb = user.ask("join"), other.ask("join")
    recording = [sys.executable, "-m", "tests.stores.recording", str(data), str(place.state_dir)]
    subprocess.run(recording, umask=0, check=True)
    with Redis.from_url(redis) as client, MongoClient[dict[str, int]](mongodb) as database:
        client.set("a", 1)
        database["test"]["values"].insert_one({"value": 1})
    pids = [process.pid for name in ("valkey", "mongodb") for process in (place.server(name), place.supervisor(name))]
    pids.append(user.process.pid)
    stranger = subprocess.run(
        [sys.executable, "-m", "tests.stores.stranger", str(place.state_dir), str(data), "--", *map(str, pids)],
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(stranger.stdout)
    assert said["could"] == []
    assert len(said["listening"]) == 4, said
    assert said["known"] > 30
    loose = [path for path in place.state_dir.rglob("*") if path.lstat().st_mode & 0o077 and not path.is_socket()]
    assert loose == []
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place.state_dir, data)] == [0o700, 0o700]


@pytest.mark.skipif(os.name != "posix", reason="folders have no modes here")
def test_folders_that_others_could_use_are_closed_and_a_secret_that_they_could_read_is_replaced(place: Place) -> None:
    folder = place.state_dir / "valkey"
    (folder / "data").mkdir(parents=True)
    (folder / "secret").write_text("known to all")
    (folder / "server.log").touch()
    for path in (place.state_dir, folder, folder / "data", folder / "secret", folder / "server.log"):
        path.chmod(0o777)
    assert "known" not in place.user("valkey").ask("join")
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.iterdir())}
    assert {mode for name, mode in modes.items() if name in ("valkey", "data")} == {"0o700"}
    assert {mode for name, mode in modes.items() if name in ("secret", "server.log", "state.json")} == {"0o600"}
    assert stat.S_IMODE(place.state_dir.stat().st_mode) == 0o755


@pytest.mark.skipif(os.name != "posix", reason="folders have no owners here")
def test_a_folder_that_someone_else_put_there_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "trap").mkdir()
    place.state_dir.mkdir()
    (place.state_dir / "valkey").symlink_to(tmp_path / "trap")
    answer = place.user("valkey").ask("join")
    assert answer.startswith("ServiceError")
    assert re.search(rf"{place.state_dir / 'valkey'} .*\blink\b", answer)
    if os.geteuid() == 0:
        (place.state_dir / "mongodb").mkdir()
        os.chown(place.state_dir / "mongodb", 65_534, 65_534)
        assert "uid 65534" in place.user("mongodb").ask("join")
    assert list((tmp_path / "trap").iterdir()) == []


def ping(name: str, url: str) -> bool:
    if name == "valkey":
        with Redis.from_url(url) as redis:
            return bool(redis.ping())
    with MongoClient[dict[str, Any]](url) as mongodb:
        return bool(mongodb.admin.command("ping")["ok"])


@pytest.fixture(
    params=[
        "valkey with a long path",
        pytest.param("mongodb with a path that it takes for hosts", marks=pytest.mark.slow),
    ]
)
def odd(request: pytest.FixtureRequest, place: Place) -> Iterator[str]:
    """A server at whose folder it cannot listen."""
    name, _, why = str(request.param).partition(" ")
    if why == "with a long path":
        place.state_dir = place.state_dir.joinpath(*["a-long-name-of-a-folder"] * 6)
        yield name
        return
    with TemporaryDirectory(dir="/tmp") as short:
        place.state_dir = Path(short, "a, [b] 12:30").resolve()
        yield name
        place.close()


def test_a_state_folder_at_whose_path_no_server_listens_has_its_sockets_elsewhere(place: Place, odd: str) -> None:
    user = place.user(odd)
    url = user.ask("join")
    sockets = Path(ServerState.read(place.state_dir / odd).sockets)
    try:
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert ping(odd, url)
        server = place.server(odd)
        server.kill()
        assert user.ask("join") == url, "it moved"
    finally:
        user.leave()
        place.close()
        for path in sockets.iterdir():
            path.unlink()
        sockets.rmdir()
