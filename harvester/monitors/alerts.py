"""The alert about a run that failed its monitors."""

import logging
from pathlib import Path
from typing import Any, Self

from scrapy.crawler import Crawler
from spidermon import Action

from harvester.alerts.channels import Alert, incomplete_channels, send
from harvester.config import Config, load_config
from harvester.monitors.history import history_of
from harvester.monitors.judgement import Judgement

logger = logging.getLogger(__name__)


class SendAlerts(Action):  # type: ignore[misc]
    """Sends the alert through every configured channel. What cannot be sent is logged, never raised."""

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
        send(self.config, make_alert(history_of(self.crawler).document(), Judgement.of(self.result)))


def make_alert(run: dict[str, Any], judgement: Judgement) -> Alert:
    """The alert about a run, whose document of `runs` is given."""
    counts = ", ".join(f"{count:,} {kind}" for kind, count in run["counts"].items()) or "nothing"
    crawl = f", job {run['crawl']}" if run["crawl"] else ""
    lines = [f"Run {run['_id']}{crawl} on {run['host']} ended with '{run['finish_reason']}'. Stored: {counts}."]
    lines += [f"• {failure['monitor']}: {failure['message']}" for failure in judgement.failures]
    payload = {
        "verdict": judgement.verdict,
        "spider": run["spider"],
        "crawl": run["crawl"],
        "run": run["_id"],
        "finish_reason": run["finish_reason"],
        "failures": judgement.failures,
        "counts": run["counts"],
        "report": run["report"],
    }
    report = Path(run["report"]) if run["report"] else None
    return Alert(f"harvester: the run of {run['spider']} failed its monitors", lines, report, payload)
