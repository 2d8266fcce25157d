"""The commands `harvester tokens ...`: access to the controller, and its limits."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harvester.cli.configured import load_config
from harvester.cli.jobs import one_of, tell
from harvester.cli.printing import at, new_console, new_table, print_json, shown
from harvester.exceptions import UsageError

if TYPE_CHECKING:  # imports inside commands keep shell completion quick
    from harvester.control.tokens import Tokens

T = TypeVar("T")

tokens = typer.Typer(help="Tokens: who may ask the controller, and for what.", no_args_is_help=True)

MOST_DAYS = 3650
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@tokens.command("add")
def add_command(
    name: Annotated[str, typer.Argument(help="Who gets it, for people.")],
    scope: Annotated[str, typer.Option(metavar="read|operate|admin", help="What it is good for.")] = "read",
    days: Annotated[int | None, typer.Option(min=1, max=MOST_DAYS, help="How long. Else: until it is revoked.")] = None,
    as_json: Json = False,
) -> None:
    """Make a token, and print it. It is shown this once, since only its digest is kept."""
    from harvester.control.tokens import Scope

    wanted = one_of("--scope", scope, Scope)
    if wanted is None:
        raise UsageError(f"--scope: give one of {', '.join(Scope)}.")
    lasts = timedelta(days=days) if days else None
    token, text = _with_tokens(lambda known: known.add(name, wanted, lasts))
    tell({"id": token.id, "name": token.name, "scope": token.scope, "token": text}, text, as_json)


@tokens.command("list")
def list_command(as_json: Json = False) -> None:
    """List the tokens that were not revoked, without what is secret of them."""
    found = _with_tokens(lambda known: known.list())
    if as_json:
        print_json(found)
        return
    console = new_console()
    if not found:
        console.print("None.")
        return
    table = new_table("id")
    for column in ("scope", "created", "until", "name"):
        table.add_column(column, overflow="fold")
    for token in found:
        until = at(token.expires_at) if token.expires_at else "it is revoked"
        table.add_row(token.id, token.scope, at(token.created_at), until, shown(token.name))
    console.print(table)


@tokens.command("revoke")
def revoke_command(
    which: Annotated[str, typer.Argument(help="Id of a token, or its name if no other has that.")],
    as_json: Json = False,
) -> None:
    """Revoke a token: from the next request on it is none, and pages that were opened with it ask anew."""
    token = _with_tokens(lambda known: known.revoke(which))
    tell({"id": token.id, "revoked": True}, f"{token.id} ({shown(token.name)}) is revoked.", as_json)


def _with_tokens(act: "Callable[[Tokens], Awaitable[T]]") -> T:
    from pymongo.errors import PyMongoError

    from harvester.control.tokens import Tokens
    from harvester.stores import mongodb

    async def run() -> T:
        database = await asyncio.to_thread(mongodb.connect, load_config())
        try:
            return await act(Tokens(database))
        except UnicodeEncodeError:
            raise UsageError("The name of a token is UTF-8.") from None
        except PyMongoError as error:
            raise mongodb.unavailable(error) from None
        finally:
            await mongodb.disconnect(database)

    return asyncio.run(run())
