"""The command `harvester worker`."""

from typing import Annotated

import typer

from harvester.cli.assignments import pairs
from harvester.cli.completion import spider_names
from harvester.cli.configured import load_config
from harvester.exceptions import INTERRUPTED, LEFT, UsageError


def worker_command(
    spider: Annotated[
        str | None,
        typer.Argument(help="Its name; none: all spiders that have open jobs.", autocompletion=spider_names),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="How many run side by side, of all spiders together.")] = 1,
    argument: Annotated[
        list[str] | None, typer.Option("-a", metavar="NAME=VALUE", help="Argument of the spider; may be repeated.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("-s", metavar="NAME=VALUE", help="Setting of Scrapy; may be repeated.")
    ] = None,
    max_memory_mb: Annotated[
        int | None, typer.Option(min=1, help="A worker that uses more is drained and started again.")
    ] = None,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="How long a worker has to finish what is in flight before it is killed.")
    ] = 30,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_000, help="Port of the first one's /metrics, for Prometheus; the next has the next."
        ),
    ] = None,
) -> None:
    """Run a spider in several processes, or work at all open jobs.

    Processes that die are started again, and all are drained on SIGTERM or Ctrl-C.
    """
    import asyncio
    import contextlib
    import os
    import sys

    from harvester.worker.interrupts import end_on_signals

    end_on_signals()
    from harvester import logs  # imports inside commands keep shell completion quick
    from harvester.formatting import typed_command
    from harvester.masking import mask
    from harvester.project import load_spider
    from harvester.spiders.arguments import check_arguments
    from harvester.worker.jobs_supervisor import JobsSupervisor, spiders_with_jobs
    from harvester.worker.show import display
    from harvester.worker.supervisor import Plan, WorkerSupervisor, check_services

    arguments, settings = pairs("-a", argument or []), pairs("-s", setting or [])
    works_at_jobs = not spider
    if spider:
        works_at_jobs = not arguments and _has_its_arguments_from_jobs(spider, settings)
        if not works_at_jobs:
            check_arguments(load_spider(spider, settings), arguments)
    elif arguments:
        raise UsageError("-a: arguments are those of one spider: name it, or leave them out, since jobs have theirs.")
    if "-" in arguments.values():
        raise UsageError("-a: several processes cannot share standard input; give a file (@FILE) instead of -.")
    command = ["crawl", spider] if spider and not works_at_jobs else []
    for option, given in (("-a", arguments), ("-s", settings)):
        command += [word for name, value in given.items() for word in (option, f"{name}={value}")]
    plan = Plan(command, processes, max_memory_mb * 1_000_000 if max_memory_mb else None, drain_seconds)
    if metrics_port:
        os.environ["HARVESTER_METRICS_PORT"] = str(metrics_port)  # the worker processes read it themselves
    config = load_config()
    check_services(config)  # before the supervisor handles signals: until then a signal ends everything at once
    with display() as shown:
        if works_at_jobs:
            supervisor: WorkerSupervisor = JobsSupervisor(
                config, plan, spiders_with_jobs(settings), shown.show_line, only=spider or ""
            )
        else:
            supervisor = WorkerSupervisor(config, plan, shown.show_line)
        code = asyncio.run(supervisor.run(shown))
    with contextlib.suppress(OSError):  # the terminal may be closed
        logs.say(shown.summary())
        if code in (INTERRUPTED, LEFT):
            again = mask(typed_command(sys.orig_argv, sys.argv[0]))
            logs.say(f"To continue, run the same command again:\n  {again}")
    raise typer.Exit(code)


def _has_its_arguments_from_jobs(spider: str, settings: dict[str, str]) -> bool:
    """Returns True if a spider cannot run without a job, like the county platforms, which need a site."""
    from harvester.project import load_spider
    from harvester.spiders.arguments import check_arguments
    from harvester.worker.jobs_supervisor import spiders_with_jobs

    if spider not in spiders_with_jobs(settings):
        return False
    try:
        check_arguments(load_spider(spider, settings), {})
    except UsageError:
        return True
    return False
