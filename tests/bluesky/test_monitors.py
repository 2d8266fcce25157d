"""A run that goes wrong while nothing fails is noticed: an alert arrives and says what happened."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pymongo.database import Database

from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest
from tests.monitors.conftest import DROP, HttpSink, sink
from tests.numbers import numbers_of
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
__all__ = ["sink"]


@pytest.fixture
def watched(harvest: Make, sink: HttpSink) -> Callable[..., Harvest]:
    """Makes a command whose alerts arrive at the sink."""
    usual = {
        "HARVESTER_ALERT_WEBHOOK_URL": f"{sink.url}/hook",
        "HARVESTER_PARKED_SECONDS": "0",
        "NO_PROXY": "127.0.0.1",
    }

    def watch(variables: Mapping[str, str] = MappingProxyType({}), **arguments: str) -> Harvest:
        return harvest(usual | dict(variables), depth="1", collect="graph,profiles,posts", **arguments)

    return watch


def failures(sink: HttpSink) -> dict[str, str]:
    """Monitor -> message, of the only alert about a run."""
    return {failure["monitor"]: failure["message"] for failure in alert_of(sink)["failures"]}


def alert_of(sink: HttpSink) -> dict[str, Any]:
    """There may be others, about sites that are left alone."""
    alerts: list[dict[str, Any]] = [post.body for post in sink.posts if "failures" in post.body]
    assert len(alerts) == 1
    return alerts[0]


def run_of(database: Database[dict[str, Any]], number: int) -> dict[str, Any]:
    """The document of a run, counted from 0."""
    return list(database.runs.find().sort("started_at"))[number]


def test_fewer_records_and_lost_fields_raise_alerts_that_say_how_many_and_which(
    watched: Make, site: Sandbox, mongodb: Records, sink: HttpSink
) -> None:
    command = watched(direction="followers")
    assert command.run() == 0, command.said
    assert sink.posts == []
    before = run_of(mongodb, 0)

    site.fault("half", match="getAuthorFeed")
    site.fault("drop_field", match="getProfile", field="postsCount")  # by which each account's gap would be noticed
    assert command.run() == 6, command.said
    half = run_of(mongodb, 1)
    assert half["scope"] == before["scope"]
    assert half["crawl"] != before["crawl"], "a finished job done again is a new one"
    assert half["counts"]["post"] < 0.6 * before["counts"]["post"]
    [(monitor, message)] = failures(sink).items()
    assert monitor == DROP
    now, earlier = half["counts"]["post"], before["counts"]["post"]
    percent = round(100 * (1 - now / earlier))
    assert {now, earlier, percent} <= {*numbers_of(message)}
    assert_told(sink, half, command, message)

    site.clear_faults()
    sink.posts.clear()
    site.fault("drop_field", match="getProfile", field="description")
    assert command.run() == 6, command.said
    lost = run_of(mongodb, 2)
    [(monitor, message)] = failures(sink).items()
    assert monitor == "Lost fields"
    share = before["coverage"]["profile"]["description"]
    assert ("profile.description" in message, {round(100 * share), 0} <= {*numbers_of(message)}) == (True, True)
    assert re.search(r"\b1 earlier", message), "the failed run is no measure"
    assert_told(sink, lost, command, message)


def test_a_blocked_run_raises_an_alert_that_says_who_refused_and_ends_with_its_own_exit_code(
    watched: Make, site: Sandbox, mongodb: Records, sink: HttpSink, tmp_path: Path
) -> None:
    site.fault("block_all", match="/xrpc/app.bsky.", after=30)
    host = site.url.removeprefix("http://")
    (tmp_path / "sites").mkdir()
    entry = f'[sandbox]\nhosts = ["{host}"]\n[sandbox.breaker]\nopen_seconds = 1\nmost_open_seconds = 1\n'
    (tmp_path / "sites" / "sandbox.toml").write_text(entry)
    command = watched(direction="both", variables={"HARVESTER_SITES_DIR": str(tmp_path / "sites")})
    assert command.run() == 7, command.said
    run = run_of(mongodb, 0)
    told = failures(sink)
    refusals, answers, *_ = numbers_of(told["Refusals"])
    assert refusals >= 5
    assert answers == sum(run["outcomes"].values())
    for part in (host, "blocked", "HTTP 403", f" {refusals:.0f} "):
        assert part in told["Refusals"].partition(".")[2], "of which host it is"
    assert "'blocked'" in told["Finish reason"]
    assert run["message"].startswith(host)
    assert "HTTP 403" in run["message"]
    last = " ".join(command.said.rpartition("\nWhy\n")[2].split())
    assert last.startswith(run["message"][:60]), "the last words repeat it"
    assert_told(sink, run, command, told["Finish reason"])
    [job] = mongodb.jobs.find()
    assert job["state"] == "open"
    left = {"kind": "account", "state": {"$in": ["waiting", "active"]}}
    assert mongodb.job_items.count_documents(left) > 0, "the work is left for later"

    site.clear_faults()
    command.run()  # an account of which some requests were parked, and another was refused, waits once more
    sink.posts.clear()
    assert command.run() == 0, command.said
    assert sink.posts == []
    assert {row["state"] for row in mongodb.jobs.find()} == {"finished"}


def assert_told(sink: HttpSink, run: dict[str, Any], command: Harvest, message: str) -> None:
    """The alert, the history, the log and the report speak of the same run and say the same."""
    alert = alert_of(sink)
    assert (alert["verdict"], alert["spider"], alert["run"]) == ("failed", "bluesky", run["_id"])
    assert (alert["crawl"], alert["counts"]) == (run["crawl"], run["counts"])
    assert run["failures"] == alert["failures"]
    report = Path(alert["report"])
    assert report.is_relative_to(command.folder / "data" / "reports")
    words = re.sub(r"&#39;", "'", report.read_text("utf-8")).replace("&#34;", '"')
    assert message in words
    assert " ".join(message.split()) in " ".join(command.said.split()), "the summary folds its lines"
    assert f"Report: {report}" in command.said
