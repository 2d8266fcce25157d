"""Prints jobs and their items at a terminal."""

import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta

from rich.console import Console

from harvester.cli.frontier_views import breaker_text
from harvester.cli.printing import at, new_console, new_grid, new_table, parts, shown
from harvester.formatting import counted, duration, number, typed_arguments
from harvester.jobs.documents import NOT_GIVEN, Item, ItemState, Job, JobState
from harvester.jobs.job_stats import reason_of
from harvester.jobs.ledger import now
from harvester.jobs.listing import ItemReport
from harvester.jobs.service import JobReport, by_state
from harvester.jobs.submission import Submitted

SEEN_AS_NOW = timedelta(seconds=10)
"""Maximum age of counts that are shown without their time."""
MOST_ARGUMENTS = 2000
"""Maximum number of characters of a job's arguments."""
MOST_NAMED = 3
"""Maximum number of record keys per collection, and of files, that are shown for an item."""


def print_submitted(submitted: Submitted) -> None:
    """Prints bad lines on standard error, then the number of accepted items."""
    for line in submitted.bad_lines:
        print(f"Line {line.line}, '{shown(line.text)}': {line.reason}.", file=sys.stderr)
    if submitted.bad > len(submitted.bad_lines):
        print(f"... and {submitted.bad - len(submitted.bad_lines):,} more lines.", file=sys.stderr)
    if submitted.bad_file:
        print(f"All of these lines, with the reasons: {submitted.bad_file}", file=sys.stderr)
    if submitted.job is None:
        return
    known = f", {submitted.known:,} known before" if submitted.known else ""
    bad = f", {counted(submitted.bad, 'line')} left out" if submitted.bad else ""
    print(f"{submitted.job}: {counted(submitted.accepted, 'item')} accepted{known}{bad}.")


def print_jobs(jobs: Sequence[Job]) -> None:
    """Prints one line for each job, with the counts that were made last."""
    console = new_console()
    if not jobs:
        console.print("None.")
        return
    table = new_table("job", "state", *ItemState)
    are_standing = any(job.standing for job in jobs)
    for name in ("created", *(["again"] if are_standing else []), "name"):
        table.add_column(name, overflow="fold")
    for job in jobs:
        states = by_state(job)
        numbers = [f"{states.get(state, 0):,}" for state in ItemState]
        again = [job.recheck] if are_standing else []
        table.add_row(job.id, job.state, *numbers, f"{job.created_at:%Y-%m-%d %H:%M}", *again, shown(job.name))
    console.print(table)


def print_report(report: JobReport) -> None:
    """Prints the whole report of a job."""
    job, console = report.job, new_console()
    called = f" ({shown(job.name)})" if job.name else ""
    since = f", ended {at(job.ended_at)}" if job.ended_at else ""
    console.print(f"{job.id}{called}: {job.state}, created {at(job.created_at)}{since}")
    if job.pause_reason:
        console.print(f"  paused because of: {shown(job.pause_reason)}")
    if job.incomplete and job.state in (JobState.OPEN, JobState.PAUSED):
        console.print(f"  incomplete: {NOT_GIVEN}")
    arguments = shown(typed_arguments(job.arguments), MOST_ARGUMENTS)
    console.print(f"  {job.spider} {arguments}".rstrip() + (f", priority {job.priority:,}" if job.priority else ""))
    if job.standing:
        budget = f", at most {job.looks_a_day:,} looks a day" if job.looks_a_day else ""
        console.print(f"  looked at again {job.recheck}{budget}")
    for kind, most in job.limits.items():
        console.print(f"  at most {most:,} of the kind {kind}")
    console.print()
    _print_counts(console, report)
    if job.standing:
        _print_looks(console, report)
    elif report.deferred:
        why = parts(_named(report.deferred.outcomes))
        console.print(f"\nto be tried again later: {counted(report.deferred.items, 'item')} ({why})")
        console.print(f"    the first at {at(report.deferred.until)}")
    for alone in report.left_alone:
        name = f"{alone.site}\0{alone.tier}" if alone.tier else alone.site
        console.print(f"\n{breaker_text(name, alone.breaker)}")
        console.print(f"    items of this job that are left there: {alone.items:,}")
    if report.left_alone_unknown:
        console.print(f"\nWhich sites are left alone is not known: {report.left_alone_unknown}")


def _print_looks(console: Console, report: JobReport) -> None:
    """Prints the next visits of items, and their reasons."""
    if not report.next_items:
        console.print("\nno item is to be looked at")
        return
    due = report.next_look is None or report.next_look <= now()
    console.print(f"\nnext look: {'now' if due or not report.next_look else at(report.next_look)}")
    for item in report.next_items:
        when = at(item.due_at) if item.due_at else "now"
        console.print(f"    {when}  {shown(item.key)} because: {shown(item.why or 'not looked at yet')}")


def _print_counts(console: Console, report: JobReport) -> None:
    grid = new_grid()
    grid.add_row("items", f"{report.items:,}", _pace(report))
    counted_at = report.job.counted_at
    if counted_at and not report.job.is_counted and now() - counted_at > SEEN_AS_NOW:
        grid.add_row("", "", f"counted {at(counted_at)}")
    for state in ItemState:
        grid.add_row(f"  {state}", f"{report.states.get(state, 0):,}", "")
    for kind, states in report.kinds.items():
        grid.add_row(f"kind {kind}", f"{sum(states.values()):,}", parts(states))
    console.print(grid)
    for title, counts in (("stages", report.stages), ("outcomes", report.outcomes)):
        if counts:
            console.print(f"{title}: {parts(counts)}")


def _pace(report: JobReport) -> str:
    if report.rate is None:
        return ""
    left = f", about {duration(report.left_s, rough=True)} left" if report.left_s is not None else ""
    return f"{number(report.rate * 60)} end a minute{left}"


def print_items(items: Sequence[ItemReport]) -> None:
    """Prints a few lines for each item."""
    console = new_console()
    if not items:
        console.print("None.")
    for report in items:
        item = report.item
        console.print(f"{shown(item.id)}  {_state(item)}")
        for past in item.history:
            came = f"{counted(past.requests, 'request')}, {counted(past.records, 'record')}"
            why = shown(reason_of(past.state, past.outcome, past.reason))
            console.print(f"    {at(past.at)}  attempt {past.attempt}: {past.state}, {why} ({came})")
        for collection, keys in report.results.records.items():
            console.print(f"    records in {collection}: {_some(keys)}")
        if report.results.files:
            console.print(f"    files: {_some(report.results.files)}")


def _state(item: Item) -> str:
    words = [item.state + (f" since {at(item.updated_at)}")]
    if item.stage:
        words.append(f"stage {item.stage}")
    if item.due_at:
        words.append(
            f"next look at {at(item.due_at)} ({item.why})" if item.why else f"tried again at {at(item.due_at)}"
        )
    if item.looks:
        words.append(_looks(item))
    if item.often:
        words.append(f"{item.often:g} times as often")
    if item.attempts:
        words.append(counted(item.attempts, "attempt"))
    if item.line:
        words.append(f"line {item.line:,}")
    if item.site:
        words.append(f"site {item.site}")
    return ", ".join(words)


def _looks(item: Item) -> str:
    """Formats the results of the last visits."""
    good = [look for look in item.looks if not look.failed]
    found = sum(look.found or 0 for look in good)
    changed = sum(bool(look.changed) for look in good)
    came = f"{changed:,} saw a change" if any(look.changed is not None for look in good) else f"{found:,} found"
    failed = f", {len(item.looks) - len(good):,} failed" if len(good) < len(item.looks) else ""
    return f"{counted(len(item.looks), 'last look')}: {came}{failed}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(shown, names[:MOST_NAMED])) + more


def _named(outcomes: Mapping[str, int]) -> dict[str, int]:
    return {name or "without an outcome": items for name, items in outcomes.items()}
