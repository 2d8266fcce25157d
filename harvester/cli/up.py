"""The command `harvester up`: the control room with everything that it needs."""

import logging
from importlib.util import find_spec
from typing import Annotated

import typer

from harvester import logs
from harvester.cli.configured import load_config
from harvester.exceptions import UsageError

NEEDS = ("fastapi", "nicegui", "sse_starlette", "uvicorn")
"""Modules of the extra `control`."""


def up_command(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is; 0: any that is free.")] = 8000,
    host: Annotated[
        str,
        typer.Option(help="Address that it listens on. Beyond loopback put TLS in front of it."),
    ] = "127.0.0.1",
    workers: Annotated[int, typer.Option(min=1, help="Processes that work at open jobs, side by side.")] = 1,
    no_workers: Annotated[bool, typer.Option("--no-workers", help="Only show: others work.")] = False,
) -> None:
    """Start servers, workers, the API and the page, all in one, until Ctrl-C."""
    import asyncio

    if missing := [name for name in NEEDS if find_spec(name) is None]:
        install = "uv pip install 'harvester[control]'"
        raise UsageError(f"The control room needs the extra `control` ({', '.join(missing)} is missing): {install}.")
    from harvester.worker.interrupts import end_on_signals

    end_on_signals("Stopped before the control room was up.")
    from harvester.control.up import UpOptions, up  # imports inside commands keep shell completion quick

    config = load_config()
    if logs.is_json():
        logging.basicConfig(level=logging.INFO)
    wanted = UpOptions(host, port, 0 if no_workers else workers)
    raise typer.Exit(asyncio.run(up(config, wanted, _say)))


def _say(said: str) -> None:
    if logs.is_json():
        logs.say(said)
    else:
        print(said, flush=True)
