"""The report of a run: a self-contained HTML file."""

import logging
import sys
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self

from jinja2 import Environment, StrictUndefined, Template
from scrapy.crawler import Crawler
from spidermon import Action

from harvester.config import Config, load_config
from harvester.formatting import duration, plural, spaced, typed_command
from harvester.masking import mask
from harvester.monitors.history import Earlier, history_of
from harvester.monitors.judgement import Judgement
from harvester.stores.private_files import make_closed

logger = logging.getLogger(__name__)


class WriteReport(Action):  # type: ignore[misc]
    """Writes `reports/<spider>/<run>.html` below the data folder, and sets the stat harvester/report to its path."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        super().__init__()
        self.crawler = crawler
        self.config = config

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    def run_action(self) -> None:
        history = history_of(self.crawler)
        run = history.document()
        html = render(run, Judgement.of(self.result), history.earlier, mask(typed_command(sys.orig_argv, sys.argv[0])))
        path = self.config.data_dir.absolute() / "reports" / run["spider"] / f"{run['_id']}.html"
        try:
            _write(path, html)
        except OSError as error:
            logger.warning("The report %s could not be written: %s", path, error.strerror)
            return
        assert self.crawler.stats
        self.crawler.stats.set_value("harvester/report", str(path))
        logger.info("Report: %s", path)


def render(run: dict[str, Any], judgement: Judgement, earlier: Earlier | None, command: str) -> str:
    """Returns the page. `run`: a document of `runs`; `command`: the command line that started the run."""
    compared = earlier.same_scope if earlier else []
    kinds = sorted({kind for each in [run, *compared] for kind in each["counts"]} | set(run["parsed"]))
    return template().render(
        run=run,
        judgement=judgement,
        history_known=earlier is not None,
        compared=compared,
        kinds=kinds,
        coverage=_coverage(run, compared or (earlier.same_spider if earlier else [])),
        took=lambda each: duration((each["finished_at"] - each["started_at"]).total_seconds()),
        command=command,
    )


@cache
def template() -> Template:
    """Returns the template of the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"share": _share, "when": _when, "spaced": spaced, "plural": plural}
    return environment.from_string(files(__package__).joinpath("report.html").read_text("utf-8"))


class FieldCoverage(NamedTuple):
    """A row of the report: the coverage of a field."""

    field: str
    now: float
    before: float | None
    """Median of earlier runs; None without earlier runs."""


def _coverage(run: dict[str, Any], earlier: list[dict[str, Any]]) -> list[FieldCoverage]:
    rows = []
    for kind in sorted(kind for kind, records in run["counts"].items() if records):
        runs = [each["coverage"][kind] for each in earlier if kind in each["coverage"]]
        now = run["coverage"].get(kind, {})
        for field in sorted({field for each in [now, *runs] for field in each}):
            before = median(each.get(field, 0.0) for each in runs) if runs else None
            rows.append(FieldCoverage(f"{kind}.{field}", now.get(field, 0.0), before))
    return rows


def _write(path: Path, text: str) -> None:
    """Writes the file completely or not at all."""
    make_closed(path.parent)
    partial = path.with_suffix(".tmp")
    try:
        partial.write_text(text, "utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _share(value: float) -> str:
    return f"{value:.1%}"


def _when(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M} UTC"
