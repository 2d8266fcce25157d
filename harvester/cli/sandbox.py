"""The command `harvester sandbox`: a made-up Bluesky and three counties on this machine, for trials."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harvester.exceptions import UsageError
from harvester.worker.interrupts import end_on_signals

if TYPE_CHECKING:
    from harvester.sandbox.server import Options

PORT = 2584
"""Port of the AppView in Bluesky's own development network."""
FOLDER = Path("sandbox")
"""Folder for results of harvests of the sandbox, below the working folder."""


def sandbox_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Run with all settings; the sandbox ends with it."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where it answers; 0: any that is free.")] = PORT,
    accounts: Annotated[int, typer.Option(min=2, max=1_000_000, help="How many there are.")] = 200,
    posts: Annotated[int, typer.Option(min=1, max=1_000, help="Of an account, on average.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Another number makes another network.")] = 1,
    parcels: Annotated[int, typer.Option(min=1, max=100_000, help="Of each of the three counties.")] = 100,
) -> None:
    """Serve a made-up Bluesky, and three counties, on this machine, until Ctrl-C or while COMMAND runs."""
    from harvester.sandbox.server import Options  # imports inside commands keep shell completion quick

    end_on_signals("Stopped before the sandbox answered.")
    options = Options(accounts=accounts, posts=posts, seed=seed)
    folder = FOLDER.absolute()
    code = asyncio.run(_serve(options, port, parcels, folder, command or ()))
    if folder.exists():
        print(f"What came of it lies in {folder}: remove that to begin anew.", file=sys.stderr)
    raise typer.Exit(code)


async def _serve(options: "Options", port: int, parcels: int, folder: Path, command: Sequence[str]) -> int:
    """Serves until a signal or the end of the command. Returns the exit code. Raises UsageError."""
    from harvester.config import read_config
    from harvester.sandbox.counties.server import serving, write_entries
    from harvester.sandbox.environment import SITES, settings
    from harvester.sandbox.network import Network
    from harvester.sandbox.server import serve

    try:
        runner, url = await serve(options, port)
    except OSError as error:
        raise UsageError(
            f"--port: {port} of this machine cannot be used: {os.strerror(error.errno or 0)}. Give another one, or 0 "
            "for any that is free."
        ) from None
    first = Network(options.accounts, options.seed).handle(0)
    print(f"A made-up Bluesky answers at {url}: {options.accounts} accounts. Begin with {first}.", file=sys.stderr)
    try:
        async with serving(parcels, port + 1 if port else 0) as counties:
            print(f"Three counties answer at {', '.join(counties.hosts)}: {parcels:,} parcels each.", file=sys.stderr)
            try:
                write_entries(counties, folder / SITES, read_config().sites_dir)
            except OSError as error:
                where = error.filename or folder
                raise UsageError(
                    f"sandbox: {where} cannot be written: {error.strerror}. Go to another folder."
                ) from None
            variables = settings(url, folder, counties.hosts)
            if command:
                return await _run(command, variables)
            await _wait(variables, first)
    finally:
        await runner.cleanup()
    return 0


async def _wait(variables: Mapping[str, str], first: str) -> None:
    """Prints the commands for another terminal, and waits for a signal."""
    from harvester.sandbox.counties.server import CRAWLS

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    print("It is kept up until Ctrl-C. To harvest it, type in another terminal:\n", file=sys.stderr)
    print(*(f"export {name}={shlex.quote(value)}" for name, value in variables.items()), sep="\n", flush=True)
    print(f"\nharvester crawl bluesky -a seeds={first}", *CRAWLS, "", sep="\n", file=sys.stderr)
    await ended.wait()


async def _run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Runs the command and returns its exit code, like a shell after a signal: 128 + number. Raises UsageError."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    for number in (signal.SIGINT, signal.SIGHUP):  # the terminal sends these to the command too
        loop.add_signal_handler(number, lambda: None)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    try:
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **variables, "PATH": path})
    except OSError as error:
        raise UsageError(f"sandbox: {command[0]!r} cannot be run: {error.strerror}.") from None

    async def terminate_when_told() -> None:
        await told.wait()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()

    terminating = asyncio.create_task(terminate_when_told())
    code = await process.wait()
    terminating.cancel()
    return code if code >= 0 else 128 - code
