"""The commands `harvester runs ...`: past runs, how they ended, and why."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from harvester.cli.completion import spider_names
from harvester.cli.configured import load_config
from harvester.cli.printing import at, new_console, new_table, parts, print_json, shown
from harvester.exceptions import UsageError
from harvester.formatting import duration, typed_arguments

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

Document = dict[str, Any]
T = TypeVar("T")

runs = typer.Typer(help="Runs: what was run, how it ended, and why.", no_args_is_help=True)

MOST_SENTENCES = 2000
"""Maximum number of characters of a monitor's message."""
Run = Annotated[str, typer.Argument(help="Id of the run, as `list` shows it; or the beginning of it. Else: the last.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@runs.command("list")
def list_command(
    spider: Annotated[str, typer.Option(help="Only those of this spider.", autocompletion=spider_names)] = "",
    state: Annotated[
        str, typer.Option(metavar="running|finished|failed|interrupted|lost", help="Only those that are so.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The most that are listed.")] = 20,
    as_json: Json = False,
) -> None:
    """List the runs, the last first."""
    from harvester.monitors.history import STATES, find_runs

    if state and state not in STATES:
        raise UsageError(f"--state: {state!r} is none of {', '.join(STATES)}.")
    if not spider.isprintable():
        raise UsageError(f"--spider: there is no spider {spider!r}.")
    query = {name: value for name, value in (("spider", spider), ("state", state)) if value}
    found = asyncio.run(_ask(lambda database: find_runs(database, query, limit)))
    if as_json:
        print_json(found)
        return
    console = new_console()
    if not found:
        console.print("None.")
        return
    table = new_table("run", "records", "exit code")
    for name in ("state", "spider", "took"):
        table.add_column(name, overflow="fold")
    for run in found:
        code = run.get("exit_code")
        table.add_row(
            run["_id"],
            f"{sum(run.get('counts', {}).values()):,}",
            "" if code is None else str(code),
            run["state"],
            run.get("spider") or "",
            _took(run),
        )
    console.print(table)


@runs.command("show")
def show_command(run: Run = "", as_json: Json = False) -> None:
    """What a run was asked for, what it did, and why it ended as it did."""
    found = _one(run)
    if as_json:
        print_json(found)
        return
    console = new_console()
    reason = f" ({found['finish_reason']})" if found.get("finish_reason") else ""
    code = f", exit code {found['exit_code']}" if found.get("exit_code") is not None else ""
    console.print(f"{found['_id']} of {found.get('spider')}: {found['state']}{reason}{code}")
    console.print(f"  started {at(found['started_at'])}, took {_took(found)}, on {found.get('host')}")
    if found.get("crawl"):
        console.print(f"  job {found['crawl']}{', continued' if found.get('resumed') else ''}")
    if arguments := typed_arguments(found.get("arguments") or {}):
        console.print(f"  {shown(arguments, MOST_SENTENCES)}")
    if found.get("message"):
        console.print(f"\n{shown(found['message'], MOST_SENTENCES)}")
    # A killed process saved its counts then for the last time. Records stored later are in MongoDB only.
    until = f" until {at(found['heartbeat_at'])}, its last sign" if found["state"] == "lost" else ""
    console.print(f"\nrecords{until}: {parts(found.get('counts') or {}) or 'none'}")
    if rejected := found.get("rejected"):
        console.print(f"rejected: {parts(rejected)}")
    for kind, states in (found.get("items") or {}).items():
        console.print(f"{kind}: {parts(states)}")
    for error in (found.get("errors") or [])[:10]:
        said = f": {shown(error['said'])}" if error.get("said") else ""
        console.print(f"  {error['times']:,} x {error['outcome']} at {error['host']}{said}")
    for failure in found.get("failures") or []:
        console.print(f"\n{failure['monitor']}: {shown(failure['message'], MOST_SENTENCES)}")
    for what in ("report", "log"):
        if found.get(what):
            console.print(f"\n{what}: {found[what]}")


@runs.command("log")
def log_command(run: Run = "") -> None:
    """Print the log of a run that wrote one into a file of this machine."""
    found = _one(run)
    if not found.get("log"):
        raise UsageError(
            f"{found['_id']} wrote its log to the terminal. `-s LOG_FILE=crawl.log` writes it into a file."
        )
    path = Path(found["log"])
    try:
        with path.open(errors="replace") as file:
            for line in file:
                print(line, end="")
    except OSError as error:
        raise UsageError(f"{path} on {found.get('host')} cannot be read: {error.strerror or error}.") from None


def _one(run: str) -> Document:
    """Returns the run whose id begins like this. Raises UsageError when none or several match."""
    from harvester.monitors.history import run_named

    return asyncio.run(_ask(lambda database: run_named(database, run)))


async def _ask(ask: "Callable[[AsyncDatabase[Document]], Awaitable[T]]") -> T:
    from pymongo.errors import PyMongoError

    from harvester.stores import mongodb

    database: AsyncDatabase[Document] = await asyncio.to_thread(mongodb.connect, load_config())
    try:
        return await ask(database)
    except PyMongoError as error:
        raise mongodb.unavailable(error) from None
    finally:
        await database.client.close()


def _took(run: Document) -> str:
    until = run.get("finished_at") or run["heartbeat_at"]
    return duration((until - run["started_at"]).total_seconds())
