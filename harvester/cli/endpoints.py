"""The commands `harvester endpoints ...`: the state of each watched endpoint, and restarting it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from harvester.cli.jobs import Json, Limit, one_of, tell, with_own_service
from harvester.cli.printing import at, new_console, print_json, shown
from harvester.exceptions import UsageError
from harvester.validation import MOST_NUMBER

if TYPE_CHECKING:  # imports inside commands keep shell completion quick
    from harvester.jobs.recurring import RecurringItem, Standing
    from harvester.jobs.service import JobService

endpoints = typer.Typer(help="Endpoints that are watched: how each stands, and restarting it.", no_args_is_help=True)

SPIDER = "endpoints"
MOST_SAID = 400
"""Maximum number of characters of a job's message."""
Names = Annotated[list[str] | None, typer.Argument(help="Names of endpoints, as `list` shows them.")]


@endpoints.command("list")
def list_command(
    standing: Annotated[
        str, typer.Option(metavar="STANDING", help="Only those that stand so: WAITING, RUNNING, SUCCESS, FAILED, ...")
    ] = "",
    limit: Limit = 10_000,
    as_json: Json = False,
) -> None:
    """List the endpoints of all jobs, those that need somebody first."""
    from harvester.jobs.recurring import Standing

    chosen = one_of("--standing", standing, Standing)
    recurring, late = with_own_service(_watched)
    found = [each for each in recurring if chosen in (None, each.standing)][:limit]
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
    for job, why in late.items():
        console.print(f"{job}: {shown(why, MOST_SAID)}")


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
        from harvester.jobs import recurring

        return await recurring.restart(service, await recurring.standing_jobs(service, SPIDER), names or ())

    number = with_own_service(restart)
    tell({"restarted": number}, f"{number:,} {'endpoint is' if number == 1 else 'endpoints are'} restarted.", as_json)


async def _watched(service: "JobService") -> "tuple[list[RecurringItem], dict[str, str]]":
    """Returns the endpoints of all current jobs, and the jobs that wait for a worker.

    Endpoints that need a person come first.
    """
    from harvester.jobs.late import find_late
    from harvester.jobs.recurring import Standing, find_watched, standing_jobs

    jobs = await standing_jobs(service, SPIDER)
    found = await find_watched(service, jobs, MOST_NUMBER)
    late = (await find_late(service.ledger, ())).jobs
    order = [Standing.PERMANENTLY_FAILED, Standing.FAILED, Standing.RUNNING]
    return sorted(found, key=lambda each: _place(each, order)), {job.id: late[job.id] for job in jobs if job.id in late}


def _place(each: "RecurringItem", order: "list[Standing]") -> tuple[Any, ...]:
    return (order.index(each.standing) if each.standing in order else len(order), each.name)
