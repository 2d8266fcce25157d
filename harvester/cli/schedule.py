"""The commands `harvester schedule ...`: what is begun at which times, by whichever worker runs then."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harvester.cli.completing import spider_names
from harvester.cli.jobs import MOST_NUMBER, Json, one_of, tell
from harvester.cli.pairs import pairs
from harvester.cli.printing import print_json
from harvester.config import load_config
from harvester.exceptions import UsageError

if TYPE_CHECKING:  # imports inside commands keep shell completion quick
    from harvester.jobs.coming import Coming
    from harvester.jobs.schedules import Schedule
    from harvester.jobs.scheduling import Schedules
    from harvester.jobs.service import JobService

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
    from harvester.jobs.schedules import (
        CatchUp,
        Overlap,
        Schedule,
        read_cron,
        read_every,
        read_name,
        read_zone,
        times_after,
    )
    from harvester.jobs.scheduling import check

    if bool(spider) + bool(job) != 1:
        raise UsageError("add: give one of the name of a spider and --job JOB.")
    if bool(cron) + bool(every) != 1:
        raise UsageError("add: give one of --cron and --every.")
    if every and zone != "UTC":
        raise UsageError("--zone: it is of a cron expression; --every goes by time that passes.")
    arguments = pairs("-a", argument or [])
    if job and arguments:
        raise UsageError("-a: the job says its arguments.")
    known_overlap = one_of("--overlap", overlap, Overlap) or Overlap.SKIP
    known_catch_up = one_of("--catch-up", catch_up, CatchUp) or CatchUp.ONCE

    async def add(service: "JobService", schedules: "Schedules") -> "Schedule":
        now = service.ledger.now()
        source = await service.job(job) if job else None
        new = Schedule(
            id=read_name(name),
            spider=source.spider if source else spider,
            arguments=arguments,
            job=job,
            cron=read_cron(cron) if cron else "",
            every_s=read_every(every) if every else None,
            zone=read_zone(zone),
            overlap=known_overlap,
            catch_up=known_catch_up,
            priority=priority,
            created_at=now,
            next_at=now,
        )
        check(new, source)
        new = replace(new, next_at=next(times_after(new, now)))
        await schedules.add(new)
        return new

    from msgspec.structs import replace

    added = _with_schedules(add)
    said = f"{name}: {added.spider}, {added.when}, first at {added.next_at:%Y-%m-%d %H:%M:%S} UTC."
    tell(_in_json(added), said, as_json)


@schedule.command("list")
def list_command(as_json: Json = False) -> None:
    """List the schedules."""
    from harvester.cli import schedule_views as views

    found = _with_schedules(lambda service, schedules: schedules.all())
    if as_json:
        print_json([_in_json(each) for each in found])
    else:
        views.print_schedules(found)


@schedule.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Name of a schedule; none: of all, and the looks of standing jobs.")] = "",
    hours: Annotated[float, typer.Option(min=0, max=24 * 366, help="How far ahead.")] = 24,
    limit: Annotated[int, typer.Option(min=1, max=MOST_NUMBER, help="The most times that are listed.")] = 100,
    as_json: Json = False,
) -> None:
    """Show the coming day: what is begun or looked at when, and why then."""
    from harvester.cli import schedule_views as views
    from harvester.jobs import coming

    async def show(service: "JobService", schedules: "Schedules") -> "Coming":
        until = service.ledger.now() + timedelta(hours=hours)
        chosen = [await schedules.named(name)] if name else await schedules.all()
        return await coming.until(service.ledger, chosen, until, limit, with_looks=not name)

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


def _in_json(schedule: "Schedule") -> dict[str, object]:
    from msgspec.structs import asdict

    return {**asdict(schedule), "when": schedule.when}
