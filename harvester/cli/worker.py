"""The command `harvester worker`."""

from typing import Annotated

import typer

from harvester.cli.pairs import pairs
from harvester.config import load_config
from harvester.exceptions import UsageError


def worker_command(
    spider: str,
    processes: Annotated[int, typer.Option(min=1, help="How many run side by side.")] = 1,
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
) -> None:
    """Run a spider in several processes, start again those that die, and drain them on SIGTERM or Ctrl-C."""
    import asyncio

    from harvester.worker.interrupts import end_on_signals

    end_on_signals()
    from harvester.spiders.known import load_spider  # imports inside commands keep shell completion quick
    from harvester.worker.show import display
    from harvester.worker.supervisor import Plan, Supervisor, check_services

    arguments, settings = pairs("-a", argument or []), pairs("-s", setting or [])
    load_spider(spider, settings).parse_arguments(arguments)
    if "-" in arguments.values():
        raise UsageError("-a: several processes cannot share standard input; give a file (@FILE) instead of -.")
    command = ["crawl", spider]
    for option, given in (("-a", arguments), ("-s", settings)):
        command += [word for name, value in given.items() for word in (option, f"{name}={value}")]
    plan = Plan(command, processes, max_memory_mb * 1_000_000 if max_memory_mb else None, drain_seconds)
    config = load_config()
    check_services(config)  # before the supervisor handles signals: until then one ends all of it at once
    with display() as shown:
        code = asyncio.run(Supervisor(config, plan, shown.show_line).run(shown))
    raise typer.Exit(code)
