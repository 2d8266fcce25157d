"""With a login requests go through the account's own server, and the harvest is the same."""

import json
from collections.abc import Callable

from tests.bluesky.compared import untruths
from tests.bluesky.conftest import EVERYTHING, Records
from tests.crash.harvest import Harvest
from tests.sandbox.process import Sandbox

READER = 20


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
