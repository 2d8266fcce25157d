"""The commands `harvester publish ...`: sending new and changed records to sinks."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harvester.cli.configured import load_config
from harvester.cli.printing import at, new_console, new_table, print_json, shown
from harvester.exceptions import LEFT, HarvesterError, UsageError
from harvester.formatting import counted
from harvester.masking import mask

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

    from harvester.config import Config
    from harvester.publish.admin import PublishStatus
    from harvester.publish.sinks import Sinks

publish = typer.Typer(help="Telling others of new and changed records.", no_args_is_help=True)

SECRET_BYTES = 32
"""Bytes of a new webhook secret."""
Sink = Annotated[str, typer.Argument(help="Name of the sink: its heading in HARVESTER_PUBLISH_FILE.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@publish.command("status")
def status_command(as_json: Json = False) -> None:
    """Show each sink: whether it takes events, how many wait, and why it fails. Exit code 7: one does not take them."""
    from harvester.publish import admin

    config, sinks = _configured()

    async def ask() -> "PublishStatus":
        async with _database(config) as database:
            return await admin.status(database, sinks)

    found = asyncio.run(ask())
    if as_json:
        print_json(found)
    else:
        _print(found)
    raise typer.Exit(LEFT if any(each.state != "sending" or each.dead for each in found.sinks) else 0)


@publish.command("run")
def run_command(
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when all is sent that can be.")] = False,
) -> None:
    """Send what waits, until Ctrl-C. While another process sends, this one waits to take over.

    With --until-empty, exit code 7: something is left that could not be sent.
    """
    from harvester.publish import admin
    from harvester.publish.relay import EventRelay
    from harvester.shutdown import stop
    from harvester.stores import mongodb

    config, sinks = _configured()
    mongodb.check(config)

    async def run() -> "PublishStatus | None":
        async with _database(config) as database:
            relay = EventRelay(config, sinks, database)
            running = asyncio.create_task(relay.run())
            loop = asyncio.get_running_loop()
            asked_to_end = asyncio.create_task(asyncio.Event().wait())
            for sent in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(sent, asked_to_end.cancel)
            try:
                until = {running, asked_to_end}
                if until_empty:
                    until.add(asyncio.create_task(relay.wait_until_idle()))
                done, _ = await asyncio.wait(until, return_when=asyncio.FIRST_COMPLETED)
                if running in done:
                    running.result()
                is_asked = asked_to_end in done
            finally:
                await stop(*until)
                await relay.leave()
            for name, number in relay.delivered.items():
                print(f"{name}: {counted(number, 'event')} sent.")
            return None if is_asked or not until_empty else await admin.status(database, sinks)

    left = asyncio.run(run())
    if left and any(each.waiting or each.dead for each in left.sinks):
        _print(left)
        raise typer.Exit(LEFT)


@publish.command("resume")
def resume_command(sink: Sink) -> None:
    """Have a sink tried again at once that fails, or was set aside."""
    from harvester.publish import admin

    config, sinks = _configured()
    one = sinks.named(sink)

    async def resume() -> int:
        async with _database(config) as database:
            return await admin.resume(database, one)

    waiting = asyncio.run(resume())
    print(f"{sink} is tried again; {waiting:,} {'event waits' if waiting == 1 else 'events wait'} for it.")


@publish.command("replay")
def replay_command(
    sink: Sink,
    dead: Annotated[bool, typer.Option("--dead", help="Events that are not tried any more.")] = False,
    records: Annotated[list[str] | None, typer.Option(help="Stored records of this kind; may be repeated.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="Of these only the one with this key; may be repeated.")] = None,
    since: Annotated[str, typer.Option(help="Of these only what was observed since then: 2026-01-31.")] = "",
) -> None:
    """Send again: dead letters, or stored records that the sink wants, in the version that they have now."""
    from harvester.items import RECORDS
    from harvester.items.other import know_collections
    from harvester.publish import admin
    from harvester.stores.export import point_in_time

    if dead == bool(records) or (dead and (key or since)):
        raise UsageError("replay: give either --dead, or --records KIND (with --key, --since).")
    try:
        observed = point_in_time(since) if since else None
    except ValueError:
        raise UsageError(f"--since: {since!r} is no time; give one like 2026-01-31 or 2026-01-31T12:00.") from None
    config, sinks = _configured()
    one = sinks.named(sink)

    async def replay(observed: datetime | None) -> int:
        async with _database(config) as database:
            if dead:
                return await admin.replay_dead(database, one)
            know_collections(await database.list_collection_names())
            for name in records or ():
                if name not in RECORDS:
                    raise UsageError(f"--records: there is no kind {name!r}; there are: {', '.join(sorted(RECORDS))}.")
            kinds = [(RECORDS[name].COLLECTION, name) for name in records or ()]
            return await admin.replay(database, one, kinds, observed, key or ())

    number = asyncio.run(replay(observed))
    print(f"{number:,} {'event waits' if number == 1 else 'events wait'} for {sink} again.")


@publish.command("test")
def test_command(sink: Sink) -> None:
    """Send an event that says it is a test, once. Exit code 7: it was not confirmed."""
    from harvester.publish.events import test_event
    from harvester.publish.senders import sender_of

    config, sinks = _configured()
    one = sinks.named(sink)

    async def send() -> str:
        sender = sender_of(one, config)
        try:
            [failure] = await sender.send([test_event(sinks.source)])
        finally:
            await sender.close()
        return failure.said if failure else ""

    if said := asyncio.run(send()):
        print(f"{sink} did not take it: {mask(said)}.")
        raise typer.Exit(LEFT)
    print(f"{sink} has it.")


@publish.command("secret")
def secret_command() -> None:
    """Print a new secret for a webhook."""
    from base64 import b64encode
    from secrets import token_bytes

    from harvester.publish.sinks import SECRET_PREFIX

    print(SECRET_PREFIX + b64encode(token_bytes(SECRET_BYTES)).decode())


def _configured() -> "tuple[Config, Sinks]":
    """Returns the settings and sinks. Raises UsageError when nothing is published or a configured name is unknown."""
    from harvester.publish.sinks import configured_sinks

    config = load_config()
    return config, configured_sinks(config)


@contextlib.asynccontextmanager
async def _database(config: "Config") -> "AsyncIterator[AsyncDatabase[dict[str, Any]]]":
    """Connects to the database. Raises ServiceError when it fails."""
    from pymongo.errors import PyMongoError

    from harvester.stores import mongodb

    database = await asyncio.to_thread(mongodb.connect, config)
    try:
        yield database
    except PyMongoError as error:
        raise mongodb.unavailable(error) from None
    finally:
        with contextlib.suppress(PyMongoError, HarvesterError):
            await mongodb.disconnect(database)


def _print(found: "PublishStatus") -> None:
    console = new_console()
    table = new_table("sink", "waiting", "dead", "sent")
    for name in ("kind", "state", "since", "until", "why"):
        table.add_column(name, overflow="fold")
    for each in found.sinks:
        since = each.failing_since or each.left_alone_since or each.oldest
        table.add_row(
            each.name,
            f"{each.waiting:,}",
            f"{each.dead:,}",
            f"{each.delivered:,}",
            each.kind or "not in the file",
            each.state,
            at(since) if since else "",
            at(each.next_at) if each.next_at else "",
            shown(each.said),
        )
    console.print(table)
    console.print(f"\n{found.sender} sends." if found.sender else "\nNobody sends now: `harvester publish run` does.")
    if found.marked:
        console.print(f"{found.marked:,} records are not distributed yet.")
