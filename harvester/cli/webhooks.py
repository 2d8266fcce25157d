"""The commands `harvester webhooks ...`: addresses that are notified when a job is paused, finished or cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harvester.cli.completion import spider_names
from harvester.cli.configured import load_config
from harvester.cli.jobs import Json, tell
from harvester.cli.printing import at, new_console, new_table, print_json, shown
from harvester.exceptions import LEFT, UsageError
from harvester.formatting import counted

if TYPE_CHECKING:  # imports inside commands keep shell completion quick
    from harvester.control.webhooks import Webhook, Webhooks

T = TypeVar("T")

webhooks = typer.Typer(help="Webhooks: who is told when a job is paused, finished or cancelled.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Its id, as `list` shows it.")]


@webhooks.command("add")
def add_command(
    url: Annotated[str, typer.Argument(help="Address that is posted each event: https://receiver.example/hook")],
    job: Annotated[str, typer.Option(help="Tell it of this job only.")] = "",
    spider: Annotated[str, typer.Option(help="Tell it of this spider's jobs only.", autocompletion=spider_names)] = "",
    as_json: Json = False,
) -> None:
    """Tell an address of jobs that are paused or have ended. Prints the secret by which its receiver checks them."""
    if job and spider:
        raise UsageError("add: give one of --job and --spider, or none for all jobs.")
    added = _with_webhooks(lambda known: known.add(url, job, spider))
    tell(
        {"id": added.webhook.id, "secret": added.secret},
        f"{added.webhook.id} is told of {_of(added.webhook)}. Its secret: {added.secret}",
        as_json,
    )


@webhooks.command("list")
def list_command(as_json: Json = False) -> None:
    """List the webhooks: what each is told of, whether it takes events, how many wait, and why it fails."""
    found = _with_webhooks(lambda known: known.all())
    if as_json:
        print_json([_in_json(each) for each in found])
        return
    console = new_console()
    if not found:
        console.print("None.")
        return
    table = new_table("webhook", "waiting", "dead", "sent")
    for name in ("of", "state", "since", "until", "address", "why"):
        table.add_column(name, overflow="fold")
    for each in found:
        since = at(each.failing_since) if each.failing_since else ""
        numbers = (f"{number:,}" for number in (each.waiting, each.dead, each.delivered))
        until = at(each.next_at) if each.next_at else ""
        table.add_row(each.id, *numbers, _of(each), each.state, since, until, shown(each.url), shown(each.said))
    console.print(table)


@webhooks.command("secret")
def secret_command(webhook: Id) -> None:
    """Print the secret by which a webhook's events are signed."""
    print(_with_webhooks(lambda known: known.secret(webhook)))


@webhooks.command("test")
def test_command(webhook: Id) -> None:
    """Send an event that says it is a test, once. Exit code 7: it was not confirmed."""
    if said := _with_webhooks(lambda known: known.test(webhook)):
        print(f"{webhook} did not take it: {said}.")
        raise typer.Exit(LEFT)
    print(f"{webhook} has it.")


@webhooks.command("resume")
def resume_command(webhook: Id, as_json: Json = False) -> None:
    """Have a webhook tried again at once that fails, or was set aside."""
    number = _with_webhooks(lambda known: known.resume(webhook))
    waits = "event waits" if number == 1 else "events wait"
    tell({"id": webhook, "waiting": number}, f"{webhook} is tried again; {number:,} {waits} for it.", as_json)


@webhooks.command("remove")
def remove_command(webhook: Id, as_json: Json = False) -> None:
    """Tell a webhook nothing more, also not what it was not told yet."""
    _with_webhooks(lambda known: known.remove(webhook))
    tell({"id": webhook, "removed": True}, f"{webhook} is removed.", as_json)


@webhooks.command("run")
def run_command() -> None:
    """Tell webhooks what happens, until Ctrl-C, where no controller runs that does. Several at once do no harm."""
    from harvester.control.webhook_sender import JobWebhookSender
    from harvester.jobs.service import job_service
    from harvester.worker.interrupts import end_on_signals

    end_on_signals("Stopped: what was not confirmed is sent by the next.")

    async def run() -> None:
        async with job_service(load_config()) as service:
            sender = JobWebhookSender(service)
            try:
                await sender.run()
            finally:
                print(f"{counted(sender.delivered, 'event')} sent.")

    asyncio.run(run())


def _with_webhooks(act: "Callable[[Webhooks], Awaitable[T]]") -> T:
    from harvester.control.webhooks import Webhooks
    from harvester.jobs.service import job_service

    async def run() -> T:
        async with job_service(load_config()) as service:
            return await act(Webhooks(service))

    return asyncio.run(run())


def _of(webhook: "Webhook") -> str:
    if webhook.job:
        return f"the job {webhook.job}"
    return f"jobs of {webhook.spider}" if webhook.spider else "all jobs"


def _in_json(webhook: "Webhook") -> dict[str, object]:
    from dataclasses import asdict

    return asdict(webhook)
