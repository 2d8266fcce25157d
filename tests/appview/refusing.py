"""Accounts of the network that say no, for a while: written with their own passwords, as they would."""

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.appview.verify import ask

Account = Mapping[str, Any]
"""As truth.json tells of it."""

PROFILE = "app.bsky.actor.profile"
DECLARATION = "org.user-intents.declaration"
NO_UNAUTHENTICATED = {
    "$type": "com.atproto.label.defs#selfLabels",
    "values": [{"val": "!no-unauthenticated"}],
}
SHOWN_WITHIN_S = 60


@contextmanager
def labelling(addresses: Mapping[str, str], account: Account) -> Iterator[None]:
    """An account whose profile asks not to be shown to the logged-out; it is shown as before when the block ends."""
    repository = {"repo": account["did"], "collection": PROFILE, "rkey": "self"}
    before = ask(addresses["pds"], "com.atproto.repo.getRecord", **repository)["value"]
    _write(addresses, account, "putRecord", repository | {"record": before | {"labels": NO_UNAUTHENTICATED}})
    _wait_until_labelled(addresses, account, wanted=True)
    yield
    _write(addresses, account, "putRecord", repository | {"record": before})
    _wait_until_labelled(addresses, account, wanted=False)


@contextmanager
def declaring(addresses: Mapping[str, str], account: Account) -> Iterator[None]:
    """An account that declares that it does not want to be in collections, until the block ends."""
    repository = {"repo": account["did"], "collection": DECLARATION, "rkey": "self"}
    at = datetime.now(UTC).isoformat()
    intents = {"$type": DECLARATION, "updatedAt": at, "bulkDataset": {"allow": False, "updatedAt": at}}
    _write(addresses, account, "putRecord", repository | {"record": intents})
    yield
    _write(addresses, account, "deleteRecord", repository)


def _write(addresses: Mapping[str, str], account: Account, method: str, body: Mapping[str, Any]) -> None:
    login = {"identifier": account["did"], "password": account["password"]}
    token = _call(addresses, "com.atproto.server.createSession", login)["accessJwt"]
    _call(addresses, f"com.atproto.repo.{method}", body, Authorization=f"Bearer {token}")


def _call(addresses: Mapping[str, str], method: str, body: Mapping[str, Any], **headers: str) -> dict[str, Any]:
    request = urllib.request.Request(f"{addresses['pds']}/xrpc/{method}", json.dumps(body).encode(), headers)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def _wait_until_labelled(addresses: Mapping[str, str], account: Account, *, wanted: bool) -> None:
    """The AppView follows what the account's server says."""
    until = time.monotonic() + SHOWN_WITHIN_S
    while time.monotonic() < until:
        labels = ask(addresses["appview"], "app.bsky.actor.getProfile", actor=account["did"]).get("labels", [])
        if any(label["val"] == "!no-unauthenticated" for label in labels) == wanted:
            return
        time.sleep(0.1)
    raise AssertionError(f"The AppView does not show what {account['handle']} says")
