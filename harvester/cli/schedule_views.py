"""Prints schedules at a terminal."""

from collections.abc import Sequence

from rich.console import Console

from harvester.cli.printing import at, new_console, new_table, shown
from harvester.jobs.late import Late
from harvester.jobs.schedules import Schedule
from harvester.jobs.upcoming import Coming

MOST_SAID = 400
"""Maximum number of characters of a schedule's message."""


def print_schedules(schedules: Sequence[Schedule], late: Late) -> None:
    """Prints a line for each schedule, the fate of a missed time, and jobs that wait for a worker."""
    console = new_console()
    if schedules:
        _print_table(console, schedules)
    else:
        console.print("None.")
    for name, said in [*late.schedules.items(), *late.jobs.items()]:
        console.print(f"{name}: {shown(said, MOST_SAID)}")


def _print_table(console: Console, schedules: Sequence[Schedule]) -> None:
    table = new_table("schedule")
    for name in ("spider", "when", "next", "last job"):
        table.add_column(name, overflow="fold")
    for each in schedules:
        waits = f", {len(each.queue):,} waiting" if each.queue else ""
        next_at = "paused" if each.paused else f"{at(each.next_at)}{waits}"
        table.add_row(each.id, each.spider, each.when, next_at, each.last_job)
    console.print(table)
    for each in schedules:
        if each.said:
            console.print(f"{each.id}: {shown(each.said)}")


def print_coming(coming: Coming) -> None:
    """Prints the coming events in the order of their times."""
    console = new_console()
    table = new_table("when")
    for name in ("what", "why"):
        table.add_column(name, overflow="fold")
    for each in coming.times:
        table.add_row("now" if each.is_due else at(each.at), shown(each.what), shown(each.why))
    console.print(table if coming.times else "Nothing.")
    if coming.more:
        console.print(f"... and more until {at(coming.until)}: --limit shows them.")
