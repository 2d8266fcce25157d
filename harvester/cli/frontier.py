"""The commands `harvester frontier ...`: waiting requests, dead letters, breakers, and forgetting requests."""

import asyncio
import getpass
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harvester.cli.completion import spider_names
from harvester.cli.configured import load_config
from harvester.cli.confirmation import confirm
from harvester.cli.jobs import Json, Limit
from harvester.cli.printing import print_json
from harvester.exceptions import UsageError

if TYPE_CHECKING:
    from harvester.config import Config
    from harvester.jobs.service import JobReport

frontier = typer.Typer(help="What waits to be fetched, and what became of it.", no_args_is_help=True)

Spider = Annotated[str, typer.Argument(help="Name of the spider.", autocompletion=spider_names)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Site = Annotated[str, typer.Argument(help="Name of the site, as `status` shows it; of an unregistered one its host.")]
Job = Annotated[str, typer.Option(help="Job whose requests are meant; none: those without a job.")]
Tier = Annotated[str, typer.Option(help="A tier of proxies of the site: only its breaker is meant.")]
Why = Annotated[str, typer.Option("--reason", help="Why, for others.")]
For = Annotated[str, typer.Option("--for", metavar="DURATION", help="30m, 6h, 1d; then probes find out.")]
Outcome = Annotated[str, typer.Option(help="Only what ended with this outcome.")]


@frontier.command("status")
def status_command(spider: Spider, as_json: Json = False) -> None:
    """Show what is ready, parked, waiting, leased, dead, skipped and done, sites that are left alone, and open jobs."""
    from harvester.cli import frontier_views as views
    from harvester.frontier import operations
    from harvester.project import load_spider, project_settings
    from harvester.spiders.job import JobSpider
    from harvester.spiders.stock import start_list_name

    config = load_config()
    kind = load_spider(spider)
    has_jobs = issubclass(kind, JobSpider)
    start_list = start_list_name(project_settings(), kind)
    reading = asyncio.run(operations.status(config, spider, start_list=start_list))
    jobs = asyncio.run(_open_jobs(config, spider)) if has_jobs else []
    if as_json:
        print_json({**reading._asdict(), "jobs": list(map(_job, jobs))})
        return
    views.print_status(reading)
    views.print_start_list(reading.start)
    if has_jobs:
        views.print_jobs(spider, jobs)


async def _open_jobs(config: "Config", spider: str) -> "list[JobReport]":
    """Returns the open jobs, including paused ones."""
    from harvester.jobs.documents import JobState
    from harvester.jobs.service import job_service

    async with job_service(config) as service:
        jobs = await service.jobs(spider, [JobState.OPEN, JobState.PAUSED])
        return [await service.report(job.id) for job in jobs]


def _job(report: "JobReport") -> dict[str, Any]:
    until = report.deferred.until if report.deferred else None
    return {"job": report.job.id, "state": report.job.state, "items": report.kinds, "next_due": until}


@frontier.command("dead")
def dead_command(
    spider: Spider,
    outcome: Outcome = "",
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List the requests that were given up, and malformed entries of the start list, the latest first."""
    from harvester.cli import frontier_views as views
    from harvester.frontier import operations

    _check(spider)
    config = load_config()
    letters = asyncio.run(operations.dead(config, spider, outcome or None, limit))
    entries = [] if outcome else asyncio.run(operations.dead_entries(config, spider, limit))
    if as_json:
        print_json({"requests": letters, "entries": entries})
    else:
        views.print_letters(letters)
        views.print_entries(entries)


@frontier.command("replay")
def replay_command(
    spider: Spider,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids, as `dead` lists them.")] = None,
    outcome: Outcome = "",
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Make requests that were given up ready again."""
    from harvester.frontier import operations

    if bool(ids) + bool(outcome) + every != 1:
        raise UsageError("replay: give one of ids, --outcome NAME or --all.")
    _check(spider)
    number = asyncio.run(operations.replay(load_config(), spider, ids or None, outcome or None))
    print(f"{number:,} of the dead are ready again.")


@frontier.command("forget")
def forget_command(
    spider: Spider,
    url: Annotated[list[str] | None, typer.Option(help="Address of a page; may be repeated.")] = None,
    pattern: Annotated[str, typer.Option(help="Regular expression that is found in addresses.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All pages: of the job, or of all.")] = False,
    job: Job = "",
    yes: Yes = False,
) -> None:
    """Forget that pages were asked for, so that they may be asked for again."""
    from harvester.frontier import operations

    if bool(url) + bool(pattern) + every != 1:
        raise UsageError("forget: give one of --url, --pattern or --all.")
    _check(spider)
    config = load_config()
    if url:
        number = asyncio.run(operations.forget(config, spider, url, job))
    elif pattern:
        number = asyncio.run(operations.forget_matching(config, spider, pattern, job))
    else:
        if not yes:
            of_job = f" for the job {job}" if job else ""
            confirm(f"Forget every page that {spider} has asked for{of_job}?")
        number = asyncio.run(operations.forget_all(config, spider, job))
    print(f"{number:,} {'page is' if number == 1 else 'pages are'} forgotten and may be asked for again.")


@frontier.command("drop")
def drop_command(spider: Spider, yes: Yes = False) -> None:
    """Remove everything that waits, is dead or was seen. The start list stays."""
    from harvester.frontier import operations

    _check(spider)
    if not yes:
        confirm(f"Drop all requests of {spider}, and forget every page it has asked for?")
    number = asyncio.run(operations.drop(load_config(), spider))
    print(f"Dropped; it held {number:,} {'request' if number == 1 else 'requests'}.")


@frontier.command("find")
def find_command(spider: Spider, url: str, job: Job = "", as_json: Json = False) -> None:
    """Tell the fate and the history of one address."""
    from harvester.cli import frontier_views as views
    from harvester.frontier import operations

    _check(spider)
    fate = asyncio.run(operations.find(load_config(), spider, url, job))
    if as_json:
        print_json(fate)
    else:
        views.print_request(url, fate)


@frontier.command("open")
def open_command(spider: Spider, site: Site, tier: Tier = "", reason: Why = "", duration: For = "") -> None:
    """Leave a site alone for a while: its requests are parked, then probes find out whether it answers."""
    _set_breaker(spider, site, tier, "open", reason, duration)


@frontier.command("close")
def close_command(spider: Spider, site: Site, tier: Tier = "", reason: Why = "") -> None:
    """Ask a site again at once: what was parked is ready."""
    _set_breaker(spider, site, tier, "closed", reason)


@frontier.command("hold")
def hold_command(spider: Spider, site: Site, tier: Tier = "", reason: Why = "", duration: For = "") -> None:
    """Leave a site alone until somebody closes its breaker, or opens it; or for a time."""
    _set_breaker(spider, site, tier, "held", reason, duration)


def _set_breaker(spider: str, site: str, tier: str, state: str, why: str, duration: str = "") -> None:
    from harvester.breaker.messages import place
    from harvester.frontier import operations
    from harvester.recheck.durations import read_duration

    _check(spider)
    try:
        for_s = read_duration(duration) if duration else None
    except UsageError as error:
        raise UsageError(f"--for: {error}.") from None
    config = load_config()
    parked, change = asyncio.run(operations.set_breaker(config, spider, site, state, _who(), tier, why, for_s))
    said = f"The breaker of {place(site, tier)} {'is' if change else 'was'} {state}"
    print(f"{said}." if tier else f"{said}; {parked:,} of its requests are parked.")


def _who() -> str:
    """Returns the user's name, for the history of events."""
    with suppress(OSError, KeyError):  # the user id may have no name
        return getpass.getuser()
    return "somebody"


def _check(spider: str) -> None:
    """Raises UsageError for an unknown spider."""
    from harvester.project import load_spider

    load_spider(spider)
