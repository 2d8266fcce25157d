"""An account that is purged in the middle of a harvest is asked about no more, and may be harvested again later."""

import signal
from collections.abc import Callable
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from typer.testing import CliRunner

from harvester.cli.app import app
from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest, fates
from tests.sandbox.process import Sandbox


def others_asked_with(path: str, did: str) -> bool:
    """Whether the request asks for several accounts."""
    return len(set(parse_qs(urlsplit(path).query).get("actors", [])) - {did}) > 0


def test_nothing_is_asked_for_a_purged_account_also_when_it_waits_or_another_links_to_it(
    harvest: Callable[..., Harvest], site: Sandbox, mongodb: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"collect": "graph,profiles,posts,threads", "depth": "10"}
    slow = harvest({"HARVESTER_REQUESTS_PER_SECOND": "30"}, **arguments)
    under_way = {"kind": "account", "state": "active", "stage": "profile_collected", "key": {"$ne": site.did(0)}}
    slow.start()
    assert slow.running_until(lambda: mongodb.job_items.count_documents(under_way) > 3), slow.said
    assert slow.end(signal.SIGINT) == 130, slow.said
    account = mongodb.job_items.find_one(under_way)
    assert account
    did = account["key"]
    for name, value in slow.environment.items():
        if name.startswith("HARVESTER_"):
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(slow.folder)

    purged = CliRunner().invoke(app, ["purge", "--account", did, "--yes"])
    assert purged.exit_code == 0, purged.output
    site.clear_log()
    fast = harvest(**arguments)
    assert fast.run() == 0, fast.said
    asked = [entry["path"] for entry in site.log()["requests"] if did in unquote(entry["path"])]
    assert [path for path in asked if not others_asked_with(path, did)] == []
    assert did not in fates(mongodb)["account"]
    names = set(mongodb.list_collection_names()) - {"purged"}
    assert not [name for name in names if mongodb[name].find_one({"$or": [{"did": did}, {"key": did}]})]

    undone = CliRunner().invoke(app, ["purge", "--undo", did])
    assert undone.exit_code == 0, undone.output
    again = harvest(**arguments | {"depth": "0"}, seeds=did)
    assert again.run() == 0, again.said
    assert fates(mongodb)["account"][did] == ("posts_collected", "")
