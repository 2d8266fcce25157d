"""The commands `harvester jobs add | remove | change`: changes to a job's items while workers run."""

from typing import Annotated

import typer

from harvester.cli.assignments import pairs
from harvester.cli.jobs import Job, Json, jobs, one_of, tell, with_service
from harvester.cli.printing import print_json
from harvester.exceptions import UsageError

__all__ = ["jobs"]

Often = Annotated[
    float | None,
    typer.Option(min=0.01, max=100, help="How many times as often as the job's policy says; of a standing job."),
]


@jobs.command("add")
def add_command(
    job: Job,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys of items.")] = None,
    source: Annotated[str, typer.Option("--input", metavar="FILE", help="File of items; - for standard input.")] = "",
    form: Annotated[
        str, typer.Option("--format", metavar="csv|jsonl|text", help="Of the input, if its name does not say it.")
    ] = "",
    kind: Annotated[str, typer.Option(help="Kind of the items, for a spider that takes several.")] = "",
    key: Annotated[str, typer.Option(metavar="COLUMN", help="Column or field that holds the key of an item.")] = "",
    often: Often = None,
    as_json: Json = False,
) -> None:
    """Add items to a job. One that was removed is there again."""
    from harvester.cli import jobs_views as views
    from harvester.jobs.inputs import Input, InputFormat
    from harvester.worker.interrupts import end_on_signals

    end_on_signals("Stopped: items that were added stay; the same command adds the rest.")
    if bool(keys) + bool(source) != 1:
        raise UsageError("add: give one of keys and --input FILE.")
    given = Input(source, one_of("--format", form, InputFormat), key) if source else keys or []
    added = with_service(lambda service: service.add(job, given, kind, often))
    if as_json:
        print_json(added)
    else:
        views.print_submitted(added)
    if added.job is None:
        raise UsageError("There is no line that can be used, so nothing was added.")


@jobs.command("remove")
def remove_command(
    job: Job,
    items: Annotated[list[str], typer.Argument(help="Ids or keys of items.")],
    as_json: Json = False,
) -> None:
    """Take items out of a job. Their records stay; what is being worked at comes to its end."""
    number = with_service(lambda service: service.remove(job, items))
    tell({"job": job, "removed": number}, f"{number:,} {'item is' if number == 1 else 'items are'} removed.", as_json)


@jobs.command("change")
def change_command(
    job: Job,
    items: Annotated[list[str], typer.Argument(help="Ids or keys of items.")],
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Of the input; without a value it is taken away."),
    ] = None,
    often: Often = None,
    as_json: Json = False,
) -> None:
    """Change what items of a job ask for, or how often they are looked at."""
    inputs = pairs("--set", setting or [])
    if not inputs and often is None:
        raise UsageError("change: give --set NAME=VALUE, --often NUMBER, or both.")
    number = with_service(lambda service: service.change(job, items, inputs, often))
    tell({"job": job, "changed": number}, f"{number:,} {'item is' if number == 1 else 'items are'} changed.", as_json)
