"""The commands `harvester db ...`: MongoDB for other programs."""

import os
import shutil
import signal
import sys

import typer

from harvester.cli.configured import load_config
from harvester.exceptions import UsageError

db = typer.Typer(help="MongoDB for other programs: a notebook, Compass, mongosh.", invoke_without_command=True)


@db.callback()
def db_command(context: typer.Context) -> None:
    """Print the address of MongoDB; a private one is kept up until Ctrl-C."""
    if context.invoked_subcommand:
        return
    config = load_config()
    print(_address(), flush=True)
    if config.mongodb_uri:
        return
    print(f"The records are in the database {config.database}. It is kept up until Ctrl-C.", file=sys.stderr)
    ended = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, ended)
    signal.sigwait(ended)


@db.command("shell")
def shell_command() -> None:
    """Open mongosh on the database."""
    config = load_config()
    mongosh = shutil.which("mongosh")
    if not mongosh:
        raise UsageError("mongosh is not installed: https://www.mongodb.com/docs/mongodb-shell/install/")
    address = _address()
    os.environ["HARVESTER_MONGOSH_URI"] = address  # the command line would be visible to other users
    script = f"db = connect(process.env.HARVESTER_MONGOSH_URI).getSiblingDB({config.database!r})"
    raise typer.Exit(os.spawnv(os.P_WAIT, mongosh, [mongosh, "--nodb", "--shell", "--eval", script]))


def _address() -> str:
    from harvester.stores import mongodb, servers

    config = load_config()
    mongodb.check(config)
    return servers.mongodb_uri(config)
