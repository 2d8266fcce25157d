"""`harvester purge` alone, as a process: `python -m tests.purge.command --account ...`."""

import sys

import typer

from harvester.exceptions import HarvesterError
from harvester.purge_cli import purge_command

if __name__ == "__main__":
    app = typer.Typer()
    app.command()(purge_command)
    try:
        app()
    except HarvesterError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
