"""The commands `harvester endpoints ...`: how each endpoint that is watched stands, and restarting it."""

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from harvester.cli.jobs import MOST_NUMBER, Json, Limit, one_of, tell, with_service
from harvester.cli.printing import at, new_console, print_json, shown
from harvester.exceptions import UsageError

if TYPE_CHECKING:  # imports inside commands keep shell completion quick
    from harvester.jobs.documents import Item
    from harvester.jobs.service import JobService

endpoints = typer.Typer(help="Endpoints that are watched: how each stands, and restarting it.", no_args_is_help=True)

SPIDER = "endpoints"
Names = Annotated[list[str] | None, typer.Argument(help="Names of endpoints, as `list` shows them.")]


class Standing(StrEnum):
    """Of an endpoint."""

    WAITING = "WAITING"
    """It was not looked at yet."""
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    """Its last look; the next one may do better."""
    PERMANENTLY_FAILED = "PERMANENTLY_FAILED"
    """It is left alone until it is restarted."""
    REMOVED = "REMOVED"
    """Its file does not name it any more, or its site forbids it."""


class Watched(NamedTuple):
    """An endpoint, as it stands."""

    name: str
    standing: Standing
    failures: int
    """In a row."""
    last_at: datetime | None
    next_at: datetime | None
    reason: str
    job: str


def standing_of(item: "Item") -> Standing:
    """In a word that people use."""
    from harvester.jobs.documents import State

    if item.state is State.ACTIVE:
        return Standing.RUNNING
    if item.state is State.FAILED:
        return Standing.PERMANENTLY_FAILED
    if item.state is State.SKIPPED:
        return Standing.REMOVED
    if item.failures:
        return Standing.FAILED
    return Standing.SUCCESS if item.looks else Standing.WAITING


@endpoints.command("list")
def list_command(
    standing: Annotated[str, typer.Option(metavar="|".join(Standing), help="Only those that stand so.")] = "",
    limit: Limit = 10_000,
    as_json: Json = False,
) -> None:
    """List the endpoints of all jobs, those that need somebody first."""
    chosen = one_of("--standing", standing, Standing)
    found = [each for each in with_service(_watched) if chosen in (None, each.standing)][:limit]
    if as_json:
        print_json(found)
        return
    console = new_console()
    if not found:
        console.print("None.")
        return
    for each in found:
        times = {"last look": each.last_at, "next look": each.next_at}
        said = [f"{name} {at(time)}" for name, time in times.items() if time]
        said += [f"{each.failures:,} failed in a row"] if each.failures else []
        console.print(f"{shown(each.name)}  {each.standing}  {', '.join(said)}".rstrip())
        if each.reason:
            console.print(f"    {shown(each.reason)}")


@endpoints.command("restart")
def restart_command(
    names: Names = None,
    everything: Annotated[bool, typer.Option("--all", help="All that have failed, for good or not.")] = False,
    as_json: Json = False,
) -> None:
    """Look at endpoints again, now: what they were before is forgotten, if they have failed."""
    if bool(names) == everything:
        raise UsageError("restart: give one of names and --all.")

    async def restart(service: "JobService") -> int:
        known = await _watched(service)
        if missing := sorted({*(names or ())} - {each.name for each in known}):
            raise UsageError(
                f"There is no endpoint {', '.join(map(repr, missing))}; `harvester endpoints list` has all."
            )
        failed = (Standing.FAILED, Standing.PERMANENTLY_FAILED)
        wanted = [each for each in known if each.name in (names or ()) or (everything and each.standing in failed)]
        number = 0
        for job in sorted({each.job for each in wanted}):
            number += await service.retry(job, [each.name for each in wanted if each.job == job])
        return number

    number = with_service(restart)
    tell({"restarted": number}, f"{number:,} {'endpoint is' if number == 1 else 'endpoints are'} restarted.", as_json)


async def _watched(service: "JobService") -> list[Watched]:
    """Those of all jobs that go on."""
    from harvester.jobs.documents import JobState, read_item

    found = []
    for job in await service.jobs(SPIDER, [JobState.OPEN, JobState.PAUSED], MOST_NUMBER):
        async for row in service.ledger.items.find({"job": job.id}):
            item = read_item(row)
            reason = item.reason if item.failures else ""
            last = item.history[-1].at if item.history else None
            found.append(Watched(item.key, standing_of(item), item.failures, last, item.due_at, reason, job.id))
    order = [Standing.PERMANENTLY_FAILED, Standing.FAILED, Standing.RUNNING]
    return sorted(found, key=lambda each: _place(each, order))


def _place(each: Watched, order: list[Standing]) -> tuple[Any, ...]:
    return (order.index(each.standing) if each.standing in order else len(order), each.name)
