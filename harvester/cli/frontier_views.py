"""Prints a frontier at a terminal."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from harvester.breaker.messages import place
from harvester.cli.printing import at, new_console, new_grid, new_table, parts
from harvester.formatting import counted, duration, number, plural, size
from harvester.frontier.messages import BreakerStatus, DeadLetter, FrontierStatus, RequestStatus
from harvester.frontier.operations import FrontierReading, StartStatus
from harvester.frontier.start_list import DeadEntry

if TYPE_CHECKING:
    from harvester.jobs.service import JobReport

MOST_CHARACTERS = 200
"""Maximum number of characters of a malformed entry."""
MOST_ROWS = 20
"""Maximum number of sites, jobs and breakers in a list. Those with the most requests are shown."""


def print_status(reading: FrontierReading) -> None:
    """Prints the whole frontier."""
    status, rates, _ = reading
    rows = [
        ("ready", status.ready, ""),
        ("parked", status.parked, _sites(status)),
        ("waiting", status.waiting, _next(status, time.time())),
        ("leased", status.leased, ""),
        ("dead", status.dead, parts(status.dead_by_outcome)),
        ("skipped", status.skipped, parts(status.skipped_by_outcome)),
        ("done", status.done, _done(status)),
        ("queued", status.queued, "in all" if status.balanced else "which is not what is found above: report this"),
        ("seen", status.seen, f"pages; {counted(status.duplicates, 'request')} for them came again"),
        ("redelivered", status.redelivered, f"after their worker was lost; {status.retried:,} retried"),
    ]
    if status.lost:
        rows.insert(
            7, ("lost", status.lost, "by a Redis that forgot them: begin anew with `harvester frontier forget`")
        )
    table = new_grid()
    for name, count, remark in rows:
        table.add_row(name, f"{count:,}", remark)
    table.add_row("memory", size(status.memory_bytes), "in Redis")
    pace = f"{number(rates.done)} done, {number(rates.queued)} queued, {number(rates.retried)} retried a second"
    table.add_row("now", "", pace)
    console = new_console()
    console.print(table)
    if status.workers:
        console.print()
        console.print(_workers(status))
    if status.breakers:
        console.print()
        for name, breaker in list(status.breakers.items())[:MOST_ROWS]:
            console.print(breaker_text(name, breaker))
        if len(status.breakers) > MOST_ROWS:
            console.print(f"and {len(status.breakers) - MOST_ROWS:,} more breakers that are not closed: see --json")
    for title, places in (("job", status.jobs), ("site", status.sites)):
        if places.keys() - {""}:
            console.print()
            console.print(_places(title, places))


def _done(status: FrontierStatus) -> str:
    """Formats the outcomes of finished requests, and the number of rejected records."""
    rejected = f"; {counted(status.rejected, 'record')} rejected, see data/rejects" if status.rejected else ""
    return parts(status.done_by_outcome) + rejected


def _sites(status: FrontierStatus) -> str:
    """Formats the sites with the most parked requests."""
    parked = {name: counts["parked"] for name, counts in status.sites.items() if counts["parked"]}
    if not parked:
        return ""
    largest = dict(sorted(parked.items(), key=lambda site: (-site[1], site[0]))[:MOST_ROWS])
    others = f", and of {len(parked) - MOST_ROWS:,} more" if len(parked) > MOST_ROWS else ""
    return f"since their sites are left alone: {parts(largest)}{others}"


def breaker_text(name: str, breaker: BreakerStatus) -> str:
    """Returns two lines: the state of the breaker, and the cause."""
    site, _, tier = name.partition("\0")
    if breaker.state == "half_open":
        out, well = breaker.probes
        how = f"half open since {at(breaker.since)}, {counted(out, 'probe')} out, {well:,} did well"
    else:
        until = "a person closes it" if breaker.until is None else at(breaker.until)
        how = f"{breaker.state} since {at(breaker.since)} until {until}"
    times = f", for the {breaker.times:,}. time in a row" if breaker.times > 1 else ""
    failed = f"{breaker.failed:,} of {breaker.tried:,} failed lately"
    tries = f"; {failed} ({parts(breaker.outcomes)})" if breaker.tried else ""
    what = "why" if breaker.cause == "person" else "the last one said"
    said = f"; {what}: {breaker.said}" if breaker.said else ""
    return f"breaker of {place(site, tier)}: {how}{times}\n    because of {breaker.cause}{tries}{said}"


def print_start_list(start: StartStatus) -> None:
    """Prints one line about the start list."""
    taken = counted(sum(start.taken.values()), "entry", "entries")
    new_console().print(f"\nstart list: {start.entries:,} left; workers have taken {taken}, {start.dead:,} malformed")


def _workers(status: FrontierStatus) -> Table:
    table = new_table("worker", "leased", "oldest", "silent for")
    for name, worker in sorted(status.workers.items()):
        oldest = duration(worker.oldest_s) if worker.leased else "-"
        table.add_row(name, f"{worker.leased:,}", oldest, duration(worker.silent_s))
    return table


def _places(title: str, places: Mapping[str, Mapping[str, int]]) -> Table:
    names = list(next(iter(places.values())))
    table = new_table(title, *names)
    largest = sorted(places.items(), key=lambda place: -sum(place[1].values()))
    for name, counts in largest[:MOST_ROWS]:
        table.add_row(name or "(none)", *(f"{counts[column]:,}" for column in names))
    if len(largest) > MOST_ROWS:
        table.add_row(f"and {len(largest) - MOST_ROWS:,} more")
    return table


def print_jobs(spider: str, jobs: "Sequence[JobReport]") -> None:
    """Prints open and paused jobs, with their items by kind and state."""
    console = new_console()
    if not jobs:
        console.print(f"No job of {spider} is open.")
    for report in jobs:
        console.print(f"job {report.job.id}, {report.job.state}, since {at(report.job.created_at)}")
        for kind, states in report.kinds.items():
            console.print(f"  {plural(kind):9} {sum(states.values()):,}: {parts(states)}")
        if deferred := report.deferred:
            wait = f"{counted(deferred.items, 'item')} of it {'waits' if deferred.items == 1 else 'wait'}"
            console.print(f"  {wait} to be tried again, the first at {at(deferred.until)}")
        console.print(f"  `harvester jobs show {report.job.id}` says more")


def print_letters(letters: Sequence[DeadLetter]) -> None:
    """Prints two lines for each dead letter: its id and address, and why it was given up."""
    console = new_console()
    if not letters:
        console.print("None.")
    for letter in letters:
        spent = f"{counted(letter.attempts, 'attempt')}"
        spent += f", {counted(letter.deliveries, 'lost worker')}" if letter.deliveries else ""
        ago = duration(time.time() - letter.at)
        console.print(f"{letter.id}  {letter.url}")
        console.print(f"    {letter.outcome}: {letter.reason or 'no reason given'} ({spent}; {ago} ago)")


def print_entries(entries: Sequence[DeadEntry]) -> None:
    """Prints the malformed entries of the start list."""
    console = new_console()
    if entries:
        console.print("Entries of the start list:")
    for entry in entries:
        console.print(f"{entry.entry[:MOST_CHARACTERS]!r}\n    {entry.reason} ({duration(time.time() - entry.at)} ago)")


def print_request(url: str, fate: RequestStatus | None) -> None:
    """Prints the state and history of a request."""
    console = new_console()
    if fate is None:
        console.print(f"{url} was not asked for, or was forgotten.")
        return
    words = [fate.state]
    if fate.since is not None:
        words.append(f"since {at(fate.since)}")
    if fate.until is not None:
        words.append(f"until {at(fate.until)}")
    if fate.worker:
        words.append(f"by {fate.worker}")
    if fate.state == "parked":
        words.append(fate.reason)
    elif fate.outcome:
        words.append(f"because of {fate.outcome}: {fate.reason}" if fate.reason else f"because of {fate.outcome}")
    if fate.attempts or fate.deliveries:
        words.append(f"after {counted(fate.attempts, 'attempt')}, {counted(fate.deliveries, 'lost worker')}")
    console.print(f"{url}: {', '.join(words)}")
    for event in fate.history:
        console.print(f"  {at(event.at)}  {event.event:12} {event.outcome} {event.reason}".rstrip())


def _next(status: FrontierStatus, now: float) -> str:
    if status.next_due is None:
        return ""
    return f"the next until {at(status.next_due)}, {duration(status.next_due - now)} from now"
