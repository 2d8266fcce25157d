"""What accounts of the network do for a while: say no, or delete a post. Each change is undone when its block ends."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.appview.verify import ask

Account = Mapping[str, Any]
"""As truth.json tells of it."""

POST = "app.bsky.feed.post"
PROFILE = "app.bsky.actor.profile"
DECLARATION = "org.user-intents.declaration"
NO_UNAUTHENTICATED = {
    "$type": "com.atproto.label.defs#selfLabels",
    "values": [{"val": "!no-unauthenticated"}],
}
SHOWN_WITHIN_S = 60


@contextmanager
def labelling(addresses: Mapping[str, str], account: Account) -> Iterator[None]:
    """Has its profile ask not to be shown to the logged-out."""

    def is_labelled() -> bool:
        labels = ask(addresses["appview"], "app.bsky.actor.getProfile", actor=account["did"]).get("labels", [])
        return any(label["val"] == "!no-unauthenticated" for label in labels)

    repository = {"repo": account["did"], "collection": PROFILE, "rkey": "self"}
    before = ask(addresses["pds"], "com.atproto.repo.getRecord", **repository)["value"]
    _write(addresses, account, "putRecord", repository | {"record": before | {"labels": NO_UNAUTHENTICATED}})
    _wait_until(is_labelled)
    try:
        yield
    finally:
        _write(addresses, account, "putRecord", repository | {"record": before})
        _wait_until(lambda: not is_labelled())


@contextmanager
def declaring(addresses: Mapping[str, str], account: Account) -> Iterator[None]:
    """Has it declare that it does not want to be in collections."""
    repository = {"repo": account["did"], "collection": DECLARATION, "rkey": "self"}
    at = datetime.now(UTC).isoformat()
    intents = {"$type": DECLARATION, "updatedAt": at, "bulkDataset": {"allow": False, "updatedAt": at}}
    _write(addresses, account, "putRecord", repository | {"record": intents})
    try:
        yield
    finally:
        _write(addresses, account, "deleteRecord", repository)


@contextmanager
def deleting(addresses: Mapping[str, str], account: Account, uri: str) -> Iterator[None]:
    """Has it delete a post, which comes back as it was."""

    def shown() -> int:
        return int(ask(addresses["appview"], "app.bsky.actor.getProfile", actor=account["did"])["postsCount"])

    before, repository = shown(), {"repo": account["did"], "collection": POST, "rkey": uri.split("/")[-1]}
    record = ask(addresses["pds"], "com.atproto.repo.getRecord", **repository)["value"]
    _write(addresses, account, "deleteRecord", repository)
    _wait_until(lambda: shown() == before - 1)
    try:
        yield
    finally:
        _write(addresses, account, "createRecord", repository | {"record": record})
        _wait_until(lambda: shown() == before)


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


def _wait_until(is_shown: Callable[[], bool]) -> None:
    """The AppView follows what the account's server says."""
    until = time.monotonic() + SHOWN_WITHIN_S
    while not is_shown():
        assert time.monotonic() < until, "The AppView does not show what an account's server says"
        time.sleep(0.1)
