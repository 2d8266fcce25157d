"""`harvester purge` alone, as a process: `python -m tests.privacy.command --account ...`."""

import sys

import typer

from harvester.cli.purge import purge_command
from harvester.exceptions import HarvesterError

if __name__ == "__main__":
    app = typer.Typer()
    app.command()(purge_command)
    try:
        app()
    except HarvesterError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
