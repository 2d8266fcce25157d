"""`harvester publish` says how each sink stands, sends what waits, and sends again what a person asks for."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harvester.exceptions import UsageError
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER, Jobs
from tests.numbers import numbers_of
from tests.pipelines.records import post
from tests.publish.conftest import House

Publish = Callable[..., Ran]


@pytest.fixture
def publish(house: House, tmp_path: Path) -> Publish:
    """The command, in a house of one sink `posts`."""
    return lambda *words: run(HARVESTER, "publish", *words, cwd=tmp_path, env=os.environ)


async def test_what_waits_is_shown_sent_and_sent_again(house: House, publish: Publish) -> None:
    await house.store(post(key="1"), post(key="2"))
    house.redis.set("harvester:events", "no stream")
    ran = publish("run", "--until-empty")
    assert ran.returncode == 7, ran.stderr
    assert "failing" in ran.stdout
    shown = json.loads(publish("status", "--json").stdout)
    [sink] = shown["sinks"]
    assert (sink["name"], sink["state"], sink["waiting"], shown["marked"]) == ("posts", "failing", 2, 0)
    assert "WRONGTYPE" in sink["said"]
    house.redis.delete("harvester:events")
    resumed = publish("resume", "posts").stdout
    assert ("posts" in resumed, numbers_of(resumed)) == (True, [2])
    ran = publish("run", "--until-empty")
    assert (ran.returncode, ran.stdout.startswith("posts: 2 ")) == (0, True), ran.stderr
    ran = publish("replay", "posts", "--records", "post", "--key", post(key="2").key)
    assert ("posts" in ran.stdout, numbers_of(ran.stdout)) == (True, [1]), ran.stderr
    assert publish("run", "--until-empty").returncode == 0
    events = house.entries()
    assert [event["subject"] for event in events] == [post(key=key).key for key in ("1", "2", "2")]
    assert events[1] == events[2]
    ran = publish("status")
    assert ran.returncode == 0
    assert "sending" in ran.stdout


def test_a_receiver_is_tried_with_an_event_that_says_so_and_secrets_are_made(house: House, publish: Publish) -> None:
    assert publish("test", "posts").returncode == 0
    [event] = house.entries()
    assert (event["type"], event["data"]) == ("harvester.test", {})
    house.redis.set("harvester:events", "no stream")
    ran = publish("test", "posts")
    assert (ran.returncode, "posts" in ran.stdout, "WRONGTYPE" in ran.stdout) == (7, True, True)
    first, second = (publish("secret").stdout.strip() for _ in range(2))
    assert first != second
    assert len(base64.b64decode(first.removeprefix("whsec_"), validate=True)) == 32


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resume", "post"], "'post'"),
        (["replay", "posts"], "--dead"),
        (["replay", "posts", "--dead", "--since", "2026-01-31"], "--dead"),
        (["replay", "posts", "--records", "toast"], "--records: "),
        (["replay", "posts", "--records", "post", "--since", "lately"], "--since: 'lately'"),
        (["replay", "posts", "--records", "post", "--since", "0001-01-01T00:00:00+14:00"], "+14:00'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: list[str],
    said: str,
    house: House,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = Jobs(tmp_path, {}, monkeypatch, capsys).harvester("publish", *words)
    assert answer.code == UsageError.exit_code
    assert said in answer.err


def test_without_a_file_the_commands_say_what_is_missing(
    house: House, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARVESTER_PUBLISH_FILE")
    ran = publish("status")
    assert ran.returncode == UsageError.exit_code
    assert "HARVESTER_PUBLISH_FILE" in ran.stderr
