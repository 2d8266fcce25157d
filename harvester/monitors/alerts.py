"""The alert about a run that failed its monitors: the failure, the run, and the next command to type."""

import contextlib
import logging
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pymongo
from pydantic import BaseModel
from pymongo.errors import DuplicateKeyError, PyMongoError
from scrapy.crawler import Crawler
from spidermon import Action

from harvester.alerts.channels import Alert, configured_channels, incomplete_channels, send
from harvester.config import Config, load_config
from harvester.dashboard.summary import NOT_CONTINUED
from harvester.exceptions import HarvesterError
from harvester.formatting import typed_command
from harvester.masking import mask
from harvester.monitors.arguments import printable_arguments
from harvester.monitors.history import DATABASE_SECONDS, history_of
from harvester.monitors.judgement import Judgement
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

SAME_CAUSE = timedelta(minutes=30)
"""Time after an alert without further alerts for the same job and cause, whether by other workers or restarted runs."""
FOLLOWING = ("Refusals", "Error ratio", "Failed items", "Record count", "Drop against earlier runs")
"""Monitors that fail together when requests fail.

They are ordered: the first that failed explains the cause, the others follow from it.
"""
OF_HOSTS = ("blocked", "unreachable", "unusable")
"""Finish reasons of runs that a host kept from their work. The monitors name the host."""
ENDING = "Finish reason"


class SendAlerts(Action):  # type: ignore[misc]
    """Sends the alert through every configured channel. Failures are logged, never raised."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        super().__init__()
        self.crawler = crawler
        self.config = config
        for missing in incomplete_channels(config):
            logger.warning("%s", missing)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    def run_action(self) -> None:
        run = history_of(self.crawler).document()
        arguments = getattr(self.crawler.spider, "arguments", None)
        given = given_arguments(arguments) if isinstance(arguments, BaseModel) else {}
        command = mask(typed_command(sys.orig_argv, sys.argv[0]))
        alert = make_alert(run, Judgement.of(self.result), given, command)
        if not configured_channels(self.config, alert):
            return
        if before := _told_by(self.config, run, alert):
            logger.info("No alert is sent: run %s has told of the same", before)
        elif not send(self.config, alert):
            _take_back(self.config, run, alert)


def given_arguments(arguments: BaseModel) -> dict[str, Any]:
    """Returns the arguments that differ from their defaults."""
    return printable_arguments(arguments.model_dump(mode="json", exclude_defaults=True))


def make_alert(
    run: Mapping[str, Any], judgement: Judgement, given: Mapping[str, Any] | None = None, command: str = ""
) -> Alert:
    """Returns the alert about a run.

    `run`: its document; `given`: its arguments; `command`: the command line that started it.
    """
    counts = ", ".join(f"{count:,} {kind}" for kind, count in run["counts"].items()) or "nothing"
    crawl = f", job {run['crawl']}" if run["crawl"] else ""
    code = run["exit_code"]
    lines = [
        f"Run {run['_id']}{crawl} on {run['host']} ended with '{run['finish_reason']}', exit code {code}."
        f" Stored: {counts}."
    ]
    if given:
        lines.append("Arguments: " + " ".join(f"{name}={_word(value)}" for name, value in given.items()))
    told, following = _causes(judgement.failures, run["finish_reason"])
    lines += [f"• {failure['monitor']}: {failure['message']}" for failure in told]
    if following:
        lines.append(f"• From that follow: {', '.join(following)}.")
    lines.append(f"Type next: harvester runs show {run['_id']}")
    if command and run["finish_reason"] not in NOT_CONTINUED:
        lines.append(f"and, when the cause is gone: {command}")
    payload = {
        "verdict": judgement.verdict,
        "spider": run["spider"],
        "crawl": run["crawl"],
        "run": run["_id"],
        "arguments": dict(given or {}),
        "finish_reason": run["finish_reason"],
        "exit_code": code,
        "failures": judgement.failures,
        "counts": run["counts"],
        "report": run["report"],
        "command": command,
    }
    report = Path(run["report"]) if run["report"] else None
    return Alert(f"harvester: the run of {run['spider']} failed its monitors", lines, report, payload)


def _causes(failures: list[dict[str, str]], finish_reason: str) -> tuple[list[dict[str, str]], list[str]]:
    """Returns the failures to report, and the names of monitors that failed from the same cause."""
    order = [*FOLLOWING, ENDING] if finish_reason in OF_HOSTS else [ENDING, *FOLLOWING]
    of_one_cause = sorted(
        (each for each in failures if each["monitor"] in order), key=lambda f: order.index(f["monitor"])
    )
    following = [each["monitor"] for each in of_one_cause[1:]]
    return [each for each in failures if each["monitor"] not in following], following


def _word(value: Any) -> str:
    return shlex.quote(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _told_by(config: Config, run: Mapping[str, Any], alert: Alert) -> str:
    """Returns the run that recently sent an alert about the same job and cause. Empty: this run should send one.

    Without MongoDB it is empty too.
    """
    cause, now = _cause(run, alert), datetime.now(UTC)
    try:
        with pymongo.timeout(DATABASE_SECONDS):
            database = mongodb.connect_sync(config)
            with database.client:
                # A time far in the future comes from a wrong clock.
                lately = {"$gte": now - SAME_CAUSE, "$lte": now + SAME_CAUSE}
                known = database["alerts"].find_one({"_id": cause, "at": lately})
                if known is None:
                    unclaimed = {"_id": cause, "at": {"$not": lately}}
                    database["alerts"].update_one(unclaimed, {"$set": {"at": now, "run": run["_id"]}}, upsert=True)
    except DuplicateKeyError:  # another worker was slightly faster
        return "of another worker"
    except (PyMongoError, HarvesterError):  # other code already logs that MongoDB is down
        return ""
    return str(known["run"]) if known else ""


def _take_back(config: Config, run: Mapping[str, Any], alert: Alert) -> None:
    """Withdraws the claim after a failed alert, so that the next run with the same cause sends one."""
    with contextlib.suppress(PyMongoError, HarvesterError), pymongo.timeout(DATABASE_SECONDS):
        database = mongodb.connect_sync(config)
        with database.client:
            database["alerts"].delete_one({"_id": _cause(run, alert), "run": run["_id"]})


def _cause(run: Mapping[str, Any], alert: Alert) -> dict[str, Any]:
    """Returns the key that identifies equal alerts."""
    return {
        "spider": run["spider"],
        "of": run["crawl"] or run["scope"],
        "reason": run["finish_reason"],
        "failed": sorted(failure["monitor"] for failure in alert.payload["failures"]),
    }
