"""A client of MongoDB: what the address says of it holds, and what nothing may be lost for holds whatever it says."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from harvester.config import Config
from harvester.stores.mongodb import check, connect, connect_sync

OPTIONS = "?serverselectiontimeoutms=200&appName=mine&journal=false"


@pytest.mark.parametrize("connect", [connect, connect_sync])
@pytest.mark.parametrize(("options", "seconds", "name"), [("", 5, "harvester"), (OPTIONS, 0.2, "mine")])
async def test_an_address_may_say_how_long_is_waited_and_not_that_writes_may_be_lost(
    options: str, seconds: float, name: str, connect: Callable[[Config], Any], free_port: int
) -> None:
    client = connect(Config(mongodb_uri=SecretStr(f"mongodb://127.0.0.1:{free_port}/{options}"))).client
    try:
        assert (client.options.server_selection_timeout, client.options.pool_options.appname) == (seconds, name)
        assert client.write_concern.document == {"j": True}
    finally:
        if closing := client.close():
            await closing


def test_a_check_leaves_no_thread_of_pymongo_for_which_a_process_would_wait_at_its_end(mongodb_uri: str) -> None:
    before = set(threading.enumerate())
    check(Config(mongodb_uri=SecretStr(mongodb_uri)))
    assert not [each.name for each in set(threading.enumerate()) - before if "pymongo" in each.name]
