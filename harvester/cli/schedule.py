"""The commands `harvester schedule ...`: jobs that any running worker begins at set times."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harvester.cli.assignments import pairs
from harvester.cli.completion import spider_names
from harvester.cli.configured import load_config
from harvester.cli.jobs import Json, one_of, tell
from harvester.cli.printing import print_json
from harvester.exceptions import UsageError
from harvester.validation import MOST_NUMBER

if TYPE_CHECKING:  # imports inside commands keep shell completion quick
    from harvester.jobs.late import Late
    from harvester.jobs.schedules import Schedule
    from harvester.jobs.scheduling import Schedules
    from harvester.jobs.service import JobService
    from harvester.jobs.upcoming import Coming

T = TypeVar("T")

schedule = typer.Typer(help="Schedules: what is begun at which times, by the workers.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the schedule.")]


@schedule.command("add")
def add_command(
    name: Name,
    spider: Annotated[str, typer.Argument(help="Name of the spider.", autocompletion=spider_names)] = "",
    argument: Annotated[
        list[str] | None, typer.Option("-a", metavar="NAME=VALUE", help="Argument of the spider; may be repeated.")
    ] = None,
    job: Annotated[str, typer.Option(help="A job whose spider, arguments and items are used, in place of these.")] = "",
    cron: Annotated[
        str, typer.Option(metavar="'M H D M W'", help="Minute, hour, day, month, weekday; or @daily.")
    ] = "",
    every: Annotated[str, typer.Option(metavar="DURATION", help="In place of it: 30m, 6h, 1d.")] = "",
    zone: Annotated[str, typer.Option(help="Time zone of the expression, like Europe/Berlin.")] = "UTC",
    overlap: Annotated[
        str, typer.Option(metavar="skip|queue|join", help="What is done while the last job is not finished.")
    ] = "skip",
    catch_up: Annotated[
        str, typer.Option(metavar="none|once|all", help="What is made up for when no worker ran.")
    ] = "once",
    priority: Annotated[
        int, typer.Option(min=-MOST_NUMBER, max=MOST_NUMBER, help="Jobs with a larger one go first.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Begin a job of a spider at certain times."""
    from harvester.jobs.schedules import CatchUp, Overlap
    from harvester.jobs.scheduling import NewSchedule

    wanted = NewSchedule(
        name=name,
        spider=spider,
        arguments=pairs("-a", argument or []),
        job=job,
        cron=cron,
        every=every,
        zone=zone,
        overlap=one_of("--overlap", overlap, Overlap) or Overlap.SKIP,
        catch_up=one_of("--catch-up", catch_up, CatchUp) or CatchUp.ONCE,
        priority=priority,
    )
    added = _with_schedules(lambda service, schedules: schedules.make(wanted))
    tell(_in_json(added), f"{name}: {_described(added, 'first')}", as_json)


@schedule.command("change")
def change_command(
    name: Name,
    argument: Annotated[
        list[str] | None,
        typer.Option("-a", metavar="NAME=VALUE", help="Argument of the spider; all that it is to have."),
    ] = None,
    cron: Annotated[str, typer.Option(metavar="'M H D M W'", help="Other times.")] = "",
    every: Annotated[str, typer.Option(metavar="DURATION", help="In place of it: 30m, 6h, 1d.")] = "",
    zone: Annotated[str, typer.Option(help="Time zone of the expression.")] = "",
    overlap: Annotated[str, typer.Option(metavar="skip|queue|join", help="While the last job is not finished.")] = "",
    catch_up: Annotated[str, typer.Option(metavar="none|once|all", help="When no worker ran.")] = "",
    priority: Annotated[int | None, typer.Option(min=-MOST_NUMBER, max=MOST_NUMBER, help="Of its jobs.")] = None,
    as_json: Json = False,
) -> None:
    """Change when a schedule begins a job, or with what. What is not given stays as it is."""
    from harvester.jobs.schedules import CatchUp, Overlap
    from harvester.jobs.scheduling import ScheduleChange

    wanted = ScheduleChange(
        arguments=pairs("-a", argument) if argument else None,
        cron=cron or None,
        every=every or None,
        zone=zone or None,
        overlap=one_of("--overlap", overlap, Overlap),
        catch_up=one_of("--catch-up", catch_up, CatchUp),
        priority=priority,
    )
    if wanted == ScheduleChange():
        raise UsageError("change: say what is to be another.")
    changed = _with_schedules(lambda service, schedules: schedules.change(name, wanted))
    tell(_in_json(changed), f"{name}: {_described(changed, 'next')}", as_json)


@schedule.command("list")
def list_command(as_json: Json = False) -> None:
    """List the schedules, and what waits for a worker."""
    from harvester.cli import schedule_views as views
    from harvester.jobs.late import find_late

    async def read(service: "JobService", schedules: "Schedules") -> "tuple[list[Schedule], Late]":
        found = await schedules.all()
        return found, await find_late(service.ledger, found)

    found, late = _with_schedules(read)
    if as_json:
        print_json([_in_json(each) | {"late": late.schedules.get(each.id, "")} for each in found])
    else:
        views.print_schedules(found, late)


@schedule.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Name of a schedule; none: of all, and the looks of standing jobs.")] = "",
    hours: Annotated[float, typer.Option(min=0, max=24 * 366, help="How far ahead.")] = 24,
    limit: Annotated[int, typer.Option(min=1, max=MOST_NUMBER, help="The most times that are listed.")] = 100,
    as_json: Json = False,
) -> None:
    """Show the coming day: what is begun or looked at when, and why then."""
    from harvester.cli import schedule_views as views
    from harvester.jobs import upcoming

    async def show(service: "JobService", schedules: "Schedules") -> "Coming":
        until = service.ledger.now() + timedelta(hours=hours)
        chosen = [await schedules.named(name)] if name else await schedules.all()
        return await upcoming.until(service.ledger, chosen, until, limit, with_looks=not name)

    found = _with_schedules(show)
    if as_json:
        print_json(found)
    else:
        views.print_coming(found)


@schedule.command("pause")
def pause_command(name: Name, as_json: Json = False) -> None:
    """Begin nothing of a schedule."""
    _with_schedules(lambda service, schedules: schedules.pause(name))
    tell({"schedule": name, "paused": True}, f"{name} is paused.", as_json)


@schedule.command("resume")
def resume_command(name: Name, as_json: Json = False) -> None:
    """End a pause. Times that passed meanwhile are not made up for."""
    next_at = _with_schedules(lambda service, schedules: schedules.resume(name))
    said = f"{name} goes on, next at {next_at:%Y-%m-%d %H:%M:%S} UTC."
    tell({"schedule": name, "paused": False, "next_at": next_at}, said, as_json)


@schedule.command("remove")
def remove_command(name: Name, as_json: Json = False) -> None:
    """Remove a schedule. Its jobs stay."""
    _with_schedules(lambda service, schedules: schedules.remove(name))
    tell({"schedule": name, "removed": True}, f"{name} is removed; its jobs stay.", as_json)


def _with_schedules(act: "Callable[[JobService, Schedules], Awaitable[T]]") -> T:
    from harvester.jobs.scheduling import Schedules
    from harvester.jobs.service import job_service

    async def run() -> T:
        async with job_service(load_config()) as service:
            return await act(service, Schedules(service.ledger))

    return asyncio.run(run())


def _described(schedule: "Schedule", word: str) -> str:
    return f"{schedule.spider}, {schedule.when}, {word} at {schedule.next_at:%Y-%m-%d %H:%M:%S} UTC."


def _in_json(schedule: "Schedule") -> dict[str, object]:
    from msgspec.structs import asdict

    return {**asdict(schedule), "when": schedule.when}
