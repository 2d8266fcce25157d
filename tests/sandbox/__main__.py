"""`python -m tests.sandbox --accounts 2000 --seed 1 --port 0` prints its addresses as JSON when it is ready."""

import argparse
import asyncio
import json
import os
import signal
import sys

import uvloop

from harvester.sandbox.server import Options, serve


def main() -> None:
    arguments = _parser().parse_args()
    fields = {name: getattr(arguments, name) for name in Options.__dataclass_fields__}
    uvloop.run(_run(Options(**fields), arguments.port, arguments.until_stdin_closes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sandbox", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--accounts", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--posts", type=int, default=30, help="posts of an account in the average")
    parser.add_argument("--page-size", type=int, default=100, help="no page has more rows than this")
    parser.add_argument("--thread-depth", type=int, default=50, help="no thread is shown deeper than this")
    parser.add_argument("--cache", type=int, default=50_000, help="rendered accounts and posts to keep")
    parser.add_argument("--log-size", type=int, default=20_000, help="requests kept in the log")
    parser.add_argument("--prerender", type=int, default=0, help="whole answers kept, for benchmarks")
    parser.add_argument("--access-seconds", type=float, default=7_200, help="lifetime of access tokens")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the parent process")
    return parser


async def _run(options: Options, port: int, watch: bool) -> None:
    runner, base = await serve(options, port)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if watch:
        loop.run_in_executor(None, _until_closed, loop, stopped)
    roles = ("service", "appview", "pds", "plc", "cdn", "control")
    print(json.dumps({role: base + ("/_control" if role == "control" else "") for role in roles}), flush=True)
    await stopped.wait()
    await runner.cleanup()
    sys.stdout.flush()
    sys.stderr.flush()
    _leave()


def _until_closed(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    sys.stdin.buffer.read()
    loop.call_soon_threadsafe(stopped.set)


def _leave() -> None:
    """End at once: the thread which reads from stdin cannot be interrupted."""
    os._exit(0)


if __name__ == "__main__":
    main()
