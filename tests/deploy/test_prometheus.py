"""Rules of Prometheus and the board of Grafana: accepted by what reads them, and about metrics that there are."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from harvester.control.metrics import Observed, ObservedFrontier, ObservedJob, families
from harvester.frontier.messages import BreakerStatus, Depth
from harvester.jobs.documents import Counted, ItemState, Job
from harvester.publish.admin import PublishStatus, SinkStatus
from harvester.worker.metrics import DiskUse, stats_families
from tests.root import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
RULES = PROMETHEUS / "harvester.rules.yml"
BOARD = GRAFANA / "harvester.json"
NOW = datetime(2026, 3, 4, tzinfo=UTC)
OTHERS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
"""Of prometheus-client's own."""

needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is not installed: apt-get install prometheus"
)


def told_metrics() -> dict[str, set[str]]:
    """Name -> labels, of all that a controller and a worker can tell."""
    job = Job(
        id="flat-1",
        spider="flat",
        scope="a",
        number=1,
        created_at=NOW,
        counts=(Counted("page", ItemState.DONE, "", "ok", 1),),
    )
    depth = Depth(0, 0, 0, 0, 0, 0, 0, 0, 0, {"ok": 1})
    breaker = BreakerStatus("open", "failures", 0.0, 0.0, 1.0, 1, 0, 0, {}, (0, 0), "")
    sink = SinkStatus("posts", "webhook", "sending", 0, 0, None, 0, None, None, None, None, "")
    observed = Observed(
        {"mongodb": True, "redis": True},
        [DiskUse("data", 1, 2)],
        {("flat", "open"): 1},
        [ObservedJob(job, 1, 1.0)],
        {"flat": 1},
        {"flat": ObservedFrontier(depth, {"down": breaker})},
        PublishStatus("", 0, [sink]),
    )
    stats = {
        "harvester/outcomes/ok": 1,
        "harvester/errors/timeout/a": 1,
        "harvester/jobs/ended/ok": 1,
        "log_count/ERROR": 1,
        "harvester/records/stored/post": 1,
    }
    found: dict[str, set[str]] = {"up": {"job", "instance"}, **{name: {"instance"} for name in OTHERS}}
    for family in (*families(observed), *stats_families(stats, "flat")):
        for sample in family.samples:
            found.setdefault(sample.name, {"instance"}).update(sample.labels)
    return found


def expressions() -> dict[str, str]:
    """Of the rules and of the board, by who uses them."""
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    found = {rule["alert"]: rule["expr"] for rule in rules}
    for panel in json.loads(BOARD.read_text("utf-8"))["panels"]:
        for number, target in enumerate(panel.get("targets", ())):
            found[f"{panel['title']} {number}"] = target["expr"]
    return found


@pytest.mark.parametrize("user", expressions())
def test_rules_and_board_name_metrics_and_labels_that_exist(user: str) -> None:
    metrics = told_metrics()
    expression = expressions()[user]
    named = re.findall(r"\b(?:harvester|process)_\w+|\bup\b", expression)
    assert named
    assert set(named) <= set(metrics)
    for metric, selectors in re.findall(r"\b(\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*[!=]=?~?\s*\"", selectors)) <= metrics[metric]
    labels = {label for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in group.split(", ")}
    assert labels <= set().union(*(metrics[name] for name in named))


def test_every_rule_says_what_to_do_and_is_tested() -> None:
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    tested = (PROMETHEUS / "harvester.rules.test.yml").read_text("utf-8")
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert f"alertname: {rule['alert']}" in tested


@needs_promtool
@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "harvester.rules.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
        ("test", "rules", "harvester.rules.test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts(words: tuple[str, ...]) -> None:
    checked = subprocess.run(["promtool", *words], cwd=PROMETHEUS, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_board_is_one_that_grafana_can_import() -> None:
    board: dict[str, Any] = json.loads(BOARD.read_text("utf-8"))
    panels = board["panels"]
    assert board["uid"] == "harvester"
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
            assert panel["description"]
    provided = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text("utf-8"))
    assert provided["datasources"][0]["type"] == "prometheus"
