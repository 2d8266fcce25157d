"""With a login requests go through the account's own server, and the harvest is the same."""

import json
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from tests.bluesky.compared import untruths
from tests.bluesky.conftest import EVERYTHING, Records
from tests.crash.harvest import Harvest, fates
from tests.sandbox.process import Sandbox

READER = 20


@pytest.mark.slow
def test_a_logged_in_harvest_asks_its_own_server_and_equals_the_anonymous_one(
    harvest: Callable[..., Harvest], site: Sandbox, mongodb: Records, free_port: int
) -> None:
    site.clear_log()
    login = {
        "HARVESTER_BLUESKY_IDENTIFIER": site.handle(READER),
        "HARVESTER_BLUESKY_APP_PASSWORD": f"pw-{site.handle(READER)}",
        "HARVESTER_BLUESKY_PDS": site.url,
    }
    nobody = f"http://127.0.0.1:{free_port}"
    command = harvest(login, collect=EVERYTHING, service=nobody)
    assert command.run() == 0, command.said
    assert untruths(site, mongodb) == []
    log = site.log()
    assert log["counts"]["com.atproto.server.createSession 200"] == 1
    asked = {entry["path"].partition("?")[0]: entry["authorized"] for entry in log["requests"]}
    calls = {path for path in asked if path.startswith("/xrpc/app.bsky.")}
    assert len(calls) >= 7
    assert {path for path, authorized in asked.items() if authorized} == calls
    sessions = list((command.folder / ".harvester" / "sessions").glob("*.json"))
    assert [path.stat().st_mode & 0o777 for path in sessions] == [0o600]
    kept = json.loads(sessions[0].read_text())
    secrets = [kept["headers"]["Authorization"].removeprefix("Bearer "), kept["refresh_token"]]
    assert all(len(secret) > 100 for secret in secrets)
    secrets.append(login["HARVESTER_BLUESKY_APP_PASSWORD"])
    for path in command.folder.rglob("*"):
        if path.is_file() and path not in sessions:
            assert not [secret for secret in secrets if secret.encode() in path.read_bytes()], path


def test_a_block_between_accounts_is_the_fate_of_one_account_and_no_refusal_of_the_site(
    harvest: Callable[..., Harvest], site: Sandbox, mongodb: Records
) -> None:
    blocked = {
        "HARVESTER_BLUESKY_IDENTIFIER": site.handle("blocked"),
        "HARVESTER_BLUESKY_APP_PASSWORD": f"pw-{site.handle('blocked')}",
        "HARVESTER_BLUESKY_PDS": site.url,
    }
    root = next(uri for uri in sorted(site.truth.threads) if site.did("hub") in uri)
    shown = f'{{"thread":{{"uri":"{root}","blocked":true,"$type":"app.bsky.feed.defs#blockedPost","instead":'
    site.fault("replace", f"getPostThread.*{root}", old='{"thread":{"post":', new=shown)
    site.clear_log()
    command = harvest(blocked, collect="graph,profiles,posts,threads")
    assert command.run() == 0, command.said
    blocker = site.did("blocker")
    ended = fates(mongodb)
    assert ended["account"].pop(blocker) == ("skipped", "block: BlockedByActor")
    assert {state for state, _ in ended["account"].values()} == {"posts_collected", "skipped"}
    assert mongodb.profiles.find_one({"_id": blocker}, {"display_name": 1})
    assert ended["thread"][root] == ("skipped", "block: blockedPost")
    assert not list((command.folder / "data").rglob("rejects/**/*.zst"))
    asked = [entry["path"] for entry in site.log()["requests"] if "getAuthorFeed" in entry["path"]]
    assert len([path for path in asked if blocker in unquote(path)]) == 1, "it is not asked again"
    run = mongodb.runs.find_one()
    assert run
    assert run["state"] == "finished"
    assert not run["outcomes"].keys() & {"policy_denied", "blocked"}
    assert run["errors"] == []
