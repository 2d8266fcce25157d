"""A private server whose folder was removed ends within seconds, and no user of it is given an empty one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stores.conftest import Place, ended


def remove(state_dir: Path, name: str) -> None:
    while state_dir.exists():  # the server makes files meanwhile
        shutil.rmtree(state_dir, ignore_errors=True)


def remove_data(state_dir: Path, name: str) -> None:
    remove(state_dir / name / "data", "")


def move(state_dir: Path, name: str) -> None:
    state_dir.rename(state_dir.with_name("elsewhere"))


def replace(state_dir: Path, name: str) -> None:
    """By an empty one, as `rm -rf` and a new start do."""
    remove(state_dir, name)
    (state_dir / name / "data").mkdir(parents=True)


@pytest.mark.parametrize(
    ("act", "name"),
    [
        *((act, "valkey") for act in (remove, remove_data, move, replace)),
        pytest.param(remove, "mongodb", marks=pytest.mark.slow),
        *(pytest.param(act, "mongodb", marks=pytest.mark.soak) for act in (remove_data, move, replace)),
    ],
)
def test_a_server_whose_folder_is_gone_ends_and_its_users_are_told(
    act: Callable[[Path, str], None], name: str, place: Place
) -> None:
    user = place.user(name)
    uri = user.ask("join")
    server, supervisor = place.server(name), place.supervisor(name)
    act(place.state_dir, name)
    assert ended(server, supervisor)
    for _ in range(2):
        told = user.ask("join")
        assert (told.startswith("ServiceError "), str(place.state_dir / name) in told, "removed" in told) == (True,) * 3
    assert not (place.state_dir / name / "state.json").exists() or act is remove_data, "nothing was begun"

    assert place.user(name).ask("join").startswith(uri.partition("://")[0]), "who comes later begins anew"
    assert user.ask("join").startswith("ServiceError "), "and is no substitute for who was there before"


def test_what_was_moved_and_put_back_is_used_again(place: Place) -> None:
    user = place.user("valkey")
    uri = user.ask("join")
    server, supervisor = place.server("valkey"), place.supervisor("valkey")
    move(place.state_dir, "valkey")
    assert ended(server, supervisor)
    place.state_dir.with_name("elsewhere").rename(place.state_dir)
    assert user.ask("join") == uri
