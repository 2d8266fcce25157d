"""The commands `harvester jobs ...`: items to collect, and their results."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harvester.cli import remote
from harvester.cli.assignments import pairs
from harvester.cli.completion import spider_names
from harvester.cli.configured import load_config
from harvester.cli.confirmation import confirm
from harvester.cli.export import EscapeFormulas, Excel, Schema, csv_options, opened_postgres, say_rejected
from harvester.cli.printing import print_json
from harvester.exceptions import INTERRUPTED, LEFT, UNMET, JobConflict, UsageError
from harvester.validation import MOST_NUMBER

if TYPE_CHECKING:  # imports inside commands keep shell completion quick
    from harvester.client.jobs import RemoteJobs
    from harvester.jobs.service import JobService

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

jobs = remote.RemoteTyper(
    help="Jobs: what is to be collected, item by item, and what became of it.",
    no_args_is_help=True,
)

Job = Annotated[str, typer.Argument(help="Id of the job, as `list` shows it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=MOST_NUMBER, help="The most that are listed.")]


@jobs.command("submit")
def submit_command(
    spider: Annotated[str, typer.Argument(help="Name of the spider.", autocompletion=spider_names)],
    source: Annotated[str, typer.Option("--input", metavar="FILE", help="File of items; - for standard input.")],
    argument: Annotated[
        list[str] | None, typer.Option("-a", metavar="NAME=VALUE", help="Argument of the spider; may be repeated.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="csv|jsonl|text", help="Of the input, if its name does not say it.")
    ] = "",
    kind: Annotated[str, typer.Option(help="Kind of the items, for a spider that takes several.")] = "",
    key: Annotated[str, typer.Option(metavar="COLUMN", help="Column or field that holds the key of an item.")] = "",
    priority: Annotated[
        int, typer.Option(min=-MOST_NUMBER, max=MOST_NUMBER, help="Jobs with a larger one go first.")
    ] = 0,
    max_items: Annotated[
        int | None, typer.Option(min=1, max=MOST_NUMBER, help="The most items of the kind that are worked at.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Any word of yours: submitted with it once more, it is the same job.")
    ] = None,
    name: Annotated[str, typer.Option(help="What the job is called, for people.")] = "",
    webhook: Annotated[
        str, typer.Option(metavar="URL", help="Address that is told when the job is paused, finished or cancelled.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Make a job of the lines of a file. Lines that cannot be used are named and left out."""
    from harvester.cli import jobs_views as views
    from harvester.download.addresses import unusable
    from harvester.jobs.inputs import Input, InputFormat
    from harvester.jobs.submission import Submission
    from harvester.worker.interrupts import end_on_signals

    again = "the same command adds the rest" if idempotency_key else "with --idempotency-key it could go on"
    end_on_signals(f"Stopped: items that were added stay; {again}.")
    wanted = Submission(spider, pairs("-a", argument or []), kind, priority, max_items, name, idempotency_key)
    given = Input(source, one_of("--format", form, InputFormat), key)
    if webhook and (fault := unusable(webhook)):
        raise UsageError(f"--webhook: {fault}.")
    submitted = with_service(lambda service: service.submit(wanted, given))
    if as_json:
        print_json(submitted)
    else:
        views.print_submitted(submitted)
    if submitted.job is None:
        raise UsageError("There is no line that can be used, so there is no job.")
    if webhook:
        _add_webhook(submitted.job, webhook)


def _add_webhook(job: str, url: str) -> None:
    """Adds a webhook, and prints its secret on standard error, because standard output belongs to the job."""
    from harvester.client.jobs import RemoteJobs

    async def add(service: "JobService | RemoteJobs") -> tuple[str, str]:
        if isinstance(service, RemoteJobs):
            return await service.add_webhook(url, job)
        from harvester.control.webhooks import Webhooks

        added = await Webhooks(service).add(url, job)
        return added.webhook.id, added.secret

    try:
        name, secret = with_service(add)
    except UsageError as error:
        raise UsageError(f"{error} The job {job} is there, and nobody is told of it.") from None
    print(f"{name} is told of {job}. Its secret: {secret}", file=sys.stderr)


@jobs.command("list")
def list_command(
    spider: Annotated[str, typer.Option(help="Only jobs of this spider.", autocompletion=spider_names)] = "",
    state: Annotated[str, typer.Option(metavar="STATE", help="Only open, paused, cancelled or finished ones.")] = "",
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List jobs, the latest first."""
    from harvester.cli import jobs_views as views
    from harvester.jobs.documents import JobState

    chosen = one_of("--state", state, JobState)
    found = with_service(lambda service: service.jobs(spider, [chosen] if chosen else [], limit))
    if as_json:
        print_json(found)
    else:
        views.print_jobs(found)


@jobs.command("show")
def show_command(job: Job, as_json: Json = False) -> None:
    """Show how far a job is, how fast it goes, and why it is no farther."""
    from harvester.cli import jobs_views as views

    report = with_service(lambda service: service.report(job))
    if as_json:
        print_json(report)
    else:
        views.print_report(report)


@jobs.command("items")
def items_command(
    job: Job,
    state: Annotated[
        str, typer.Option(metavar="STATE", help="Only waiting, active, done, failed or skipped ones.")
    ] = "",
    outcome: Annotated[str, typer.Option(help="Only those whose latest attempt had this outcome.")] = "",
    site: Annotated[str, typer.Option(help="Only those of this site.")] = "",
    text: Annotated[str, typer.Option(help="Only those with this in their key or their reason.")] = "",
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List items with their attempts, and where their records and files lie."""
    from harvester.cli import jobs_views as views
    from harvester.jobs.documents import ItemState
    from harvester.jobs.listing import ItemFilter

    one_of("--state", state, ItemState)
    found = with_service(lambda service: service.items(job, ItemFilter(state, outcome, site, text), limit))
    if as_json:
        print_json(found)
    else:
        views.print_items(found)


@jobs.command("pause")
def pause_command(
    job: Job, reason: Annotated[str, typer.Option(help="Why, for others.")] = "", as_json: Json = False
) -> None:
    """Begin no more items of a job. Those that are being worked at come to their end."""
    with_service(lambda service: service.pause(job, reason))
    tell({"job": job, "state": "paused"}, f"{job} is paused.", as_json)


@jobs.command("resume")
def resume_command(job: Job, as_json: Json = False) -> None:
    """End a pause."""
    with_service(lambda service: service.resume(job))
    tell({"job": job, "state": "open"}, f"{job} goes on.", as_json)


@jobs.command("cancel")
def cancel_command(
    job: Job, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False, as_json: Json = False
) -> None:
    """Skip what waits in a job, for good. Items that are being worked at come to their end."""
    if not yes:
        with_service(lambda service: service.job(job))  # raises UnknownJob before the question
        confirm(f"Cancel {job}? Its items are not tried again.")
    skipped = with_service(lambda service: service.cancel(job))
    tell({"job": job, "state": "cancelled", "skipped": skipped}, f"{job} is cancelled; {skipped:,} skipped.", as_json)


@jobs.command("retry")
def retry_command(
    job: Job,
    items: Annotated[list[str] | None, typer.Argument(help="Ids or keys of items.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All that failed.")] = False,
    outcome: Annotated[str, typer.Option(help="All with this outcome, whatever their state.")] = "",
    as_json: Json = False,
) -> None:
    """Try items again, now, with all their attempts."""
    if bool(items) + failed + bool(outcome) != 1:
        raise UsageError("retry: give one of items, --failed or --outcome NAME.")
    number = with_service(lambda service: service.retry(job, items or (), outcome))
    said = f"{number:,} {'item is' if number == 1 else 'items are'} tried again."
    tell({"job": job, "retried": number}, said, as_json)


@jobs.command("priority", context_settings={"ignore_unknown_options": True})
def priority_command(
    job: Job,
    priority: Annotated[
        int, typer.Argument(min=-MOST_NUMBER, max=MOST_NUMBER, help="Jobs with a larger one go first.")
    ],
    as_json: Json = False,
) -> None:
    """Put a job before or behind others of its spider."""
    with_service(lambda service: service.set_priority(job, priority))
    tell({"job": job, "priority": priority}, f"{job} has the priority {priority:,}.", as_json)


@jobs.command("export")
def export_command(
    job: Job,
    form: Annotated[str, typer.Option("--format", metavar="csv|jsonl|parquet", help="Of the files. Else: jsonl.")] = "",
    zstd: Annotated[bool, typer.Option("--zstd", help="Compress CSV or JSON lines with zstd.")] = False,
    out: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder to write to, instead of one in the data folder.")
    ] = "",
    to: Annotated[
        str, typer.Option(metavar="postgresql://...", help="A PostgreSQL to write tables in, instead of files.")
    ] = "",
    schema: Schema = "",
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A collection of records, or manifest; may be repeated. Else: all."),
    ] = None,
    excel: Excel = False,
    escape_formulas: EscapeFormulas = False,
    as_json: Json = False,
) -> None:
    """Write the records of a job, and the manifest of its items, into files, or tables of PostgreSQL.

    The job may go on meanwhile.
    """
    from harvester.jobs.export import Exported, FileExport, Stored
    from harvester.stores.tables import Format

    chosen = one_of("--format", form, Format) or Format.JSONL
    if to and (form or zstd or out):
        raise UsageError("--format, --zstd and --out are of files, and --to writes none.")
    options = csv_options(chosen is Format.CSV and not to, excel, escape_formulas)
    postgres = opened_postgres(to, schema)
    if to and not postgres:
        raise UsageError("--to: give an address, postgresql://USER@HOST/DATABASE; for files there is --out FOLDER.")

    written: list[Exported] | list[Stored]
    if postgres:
        with postgres:
            written = with_service(lambda service: service.export_to(job, postgres, only or ()))
    else:
        wanted = FileExport(Path(out) if out else None, chosen, zstd, only or (), options)
        written = with_service(lambda service: service.export(job, wanted))
    if as_json:
        print_json(written)
    else:
        for name, rows in written:
            print(f"{rows:12,}  {name}")
    if postgres:
        say_rejected(postgres)


@jobs.command("wait")
def wait_command(
    job: Job,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds; none: until it ends.")] = None,
    as_json: Json = False,
) -> None:
    """Wait until a job is finished. Exit code 6: items failed; 7: the time is over; 130: it was cancelled."""
    from harvester.cli import jobs_views as views
    from harvester.jobs.documents import ItemState, JobState
    from harvester.jobs.service import by_state
    from harvester.worker.interrupts import end_on_signals

    end_on_signals("Stopped waiting; the job goes on as it was.")
    ended = with_service(lambda service: service.wait(job, timeout))
    if as_json:
        print_json(ended)
    else:
        views.print_jobs([ended])
    if ended.state is JobState.CANCELLED:
        raise typer.Exit(INTERRUPTED)
    if ended.state is not JobState.FINISHED:
        raise typer.Exit(LEFT)
    raise typer.Exit(UNMET if by_state(ended).get(ItemState.FAILED) else 0)


@jobs.command("run")
def run_command(
    job: Job,
    setting: Annotated[
        list[str] | None, typer.Option("-s", metavar="NAME=VALUE", help="Setting of Scrapy; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Work at a job here until it is finished: as `scrapy crawl` with its spider and -a job=ID."""
    from scrapy.cmdline import execute

    from harvester.jobs.documents import JobState
    from harvester.worker.interrupts import end_on_signals

    if remote.chosen():
        raise UsageError(
            "run works at a job here, with servers of this machine, and takes no --url (HARVESTER_URL): workers of the"
            " controller work at its jobs, and `harvester jobs wait` waits for them."
        )
    end_on_signals()
    settings = pairs("-s", setting or [])
    known = with_own_service(lambda service: service.job(job))
    if known.state is JobState.CANCELLED:
        raise JobConflict(f"{job} is cancelled: there is nothing to be done.")
    os.environ.setdefault("SCRAPY_SETTINGS_MODULE", "harvester.settings")
    options = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    try:
        execute(["scrapy", "crawl", known.spider, "-a", f"job={known.id}", *options])  # always raises SystemExit
    finally:
        if as_json:
            print_json(with_own_service(lambda service: service.wait(job, 0)))


def with_service(act: "Callable[[JobService | RemoteJobs], Awaitable[T]]") -> T:
    """Calls `act` with the controller's service if a controller is named, otherwise with this machine's."""
    access = remote.chosen()
    if access is None:
        return with_own_service(act)
    from harvester.client.jobs import remote_jobs

    async def run() -> T:
        async with remote_jobs(access, load_config()) as service:
            return await act(service)

    return asyncio.run(run())


def with_own_service(act: "Callable[[JobService], Awaitable[T]]") -> T:
    """Calls `act` with the service of this machine."""
    from harvester.jobs.service import job_service

    async def run() -> T:
        async with job_service(load_config()) as service:
            return await act(service)

    return asyncio.run(run())


def one_of(option: str, given: str, among: type[E]) -> E | None:
    """Returns the enum member; None for an empty value. Raises UsageError."""
    if given and given not in list(among):
        raise UsageError(f"{option}: {given!r} is none of {', '.join(among)}.")
    return among(given) if given else None


def tell(said: dict[str, object], sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(said)
    else:
        print(sentence)
