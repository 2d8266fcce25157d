"""The command `harvester report`: draws charts of a harvest on one HTML page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harvester.cli.configured import load_config
from harvester.exceptions import UsageError

if TYPE_CHECKING:
    from harvester.config import Config

HASHTAGS = "hashtags"
"""Name of the report on hashtags, given in place of a harvest."""


def report_command(
    what: Annotated[
        str, typer.Argument(metavar=f"[{HASHTAGS}]", help="Draw rank and volume of hashtags over time.")
    ] = "",
    job: Annotated[str, typer.Option(help="Only what was observed for this job.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Of hashtags: this one; may be repeated.")] = None,
    source: Annotated[str, typer.Option(help="Of hashtags: only what this source says.")] = "",
    region: Annotated[str, typer.Option(help="Of hashtags: only of this region, or instance.")] = "",
    days: Annotated[int, typer.Option(min=1, max=36_500, help="Of hashtags: how far back.")] = 30,
    database: Annotated[str, typer.Option(help="MongoDB database, instead of the configured one.")] = "",
    out: Annotated[Path | None, typer.Option(help="File to write, instead of one in the data folder.")] = None,
) -> None:
    """Draw a harvest on one HTML page: who follows whom, posts over time, hashtags, threads; or sales and values."""
    from harvester.dashboard.report import write_report
    from harvester.dashboard.trends import TrendSelection, write_trends
    from harvester.project import spider_loader

    if what not in ("", HASHTAGS):
        raise UsageError(f"{what!r} is nothing that is drawn: leave it out, or say {HASHTAGS}.")
    if what and job:
        raise UsageError(
            "--job: trends are drawn over all jobs that looked at them; narrow them by --source and --tag."
        )
    if not what and (tag or source or region):
        raise UsageError(f"--tag, --source and --region belong to `harvester report {HASHTAGS}`.")
    config = _config(database)
    if what:
        print(write_trends(config, TrendSelection(tag or (), source, region, days), out))
        return
    spider_loader()  # importing the spiders also registers the record kinds of the project
    print(write_report(config, job, out))


def _config(database: str) -> "Config":
    """Returns the settings, with another database if one is given. Raises UsageError for an invalid name."""
    from pydantic import ValidationError

    config = load_config()
    if not database:
        return config
    try:
        return type(config).model_validate(config.model_dump() | {"database": database})
    except ValidationError:
        raise UsageError(f"--database: {database!r} is no name of a database.") from None
