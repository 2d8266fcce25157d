"""The command `harvester feed`."""

from collections.abc import AsyncIterator, Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import typer

from harvester.cli.completion import spider_names
from harvester.cli.configured import load_config
from harvester.exceptions import UsageError

if TYPE_CHECKING:
    from harvester.config import Config

BATCH = 1000
"""Number of entries in a batch."""
MOST_NAMED = 20
"""Maximum number of bad lines that are printed. Further ones are counted."""
SHOWN = 80
"""Maximum number of characters of a bad line that are printed."""
MOST_LINE_BYTES = 1024 * 1024


def feed_command(
    spider: Annotated[str, typer.Argument(help="Name of the spider.", autocompletion=spider_names)],
    file: Annotated[str, typer.Argument(help="Lines or JSON objects of arguments, one a line; - for standard input.")],
) -> None:
    """Push the lines of a file into the start list of a spider. Lines that cannot be used are named and left out."""
    import asyncio  # imports inside commands keep shell completion quick
    import sys

    from redis.exceptions import RedisError

    from harvester.project import load_spider
    from harvester.stores.redis import check, unavailable

    if not getattr(load_spider(spider), "SERVES_START_LIST", False):
        raise UsageError(
            f"{spider} serves no start list of harvester's. One of scrapy-redis reads what redis-cli pushes: see"
            " docs/scrapy.md."
        )
    config = load_config()
    check(config)
    try:
        source = sys.stdin.buffer if file == "-" else Path(file).open("rb")  # noqa: SIM115  closed below
    except OSError as error:
        raise UsageError(f"The file {file} cannot be read: {error.strerror}.") from None
    try:
        with source:
            fed, bad = asyncio.run(_feed(config, spider, _as_utf8(source)))
    except OSError as error:
        raise UsageError(f"The file {file} cannot be read: {error.strerror or error}.") from None
    except RedisError as error:
        raise unavailable(error) from None
    print(f"{fed:,} {'entry' if fed == 1 else 'entries'} for {spider}" + (f"; {bad:,} left out." if bad else "."))
    if not fed:
        raise UsageError("There is no line that can be used.")


def _as_utf8(source: Any) -> BinaryIO:
    """Returns the file as UTF-8, from any Unicode encoding."""
    from harvester.decoding import ReadAsUtf8, certain_encoding

    encoding = certain_encoding(source.peek(4))
    return cast(BinaryIO, BufferedReader(ReadAsUtf8(source, encoding)) if encoding else source)


async def _feed(config: "Config", spider: str, source: BinaryIO) -> tuple[int, int]:
    """Pushes the lines. Returns the numbers of pushed entries and of bad lines."""
    from harvester.frontier.start_list import StartList
    from harvester.stores.redis import connect

    redis = connect(config)
    start_list = StartList(redis, spider, config.database)
    fed = 0
    lines = _Lines(spider, source)
    try:
        async for batch in _batches(iter(lines)):
            await start_list.push(batch)
            fed += len(batch)
    finally:
        await redis.aclose()
    return fed, lines.bad


async def _batches(lines: Iterator[bytes]) -> AsyncIterator[list[bytes]]:
    while batch := list(islice(lines, BATCH)):
        yield batch


class _Lines:
    """The good lines of a file. Bad lines are printed on standard error."""

    def __init__(self, spider: str, source: BinaryIO) -> None:
        from harvester.project import load_spider

        self._check = load_spider(spider).check_start_entry  # type: ignore[attr-defined]
        self._source = source
        self.bad = 0

    def __iter__(self) -> Iterator[bytes]:
        import sys

        for number, raw in enumerate(self._raw(), 1):
            line = raw.strip()
            try:
                _refuse_too_long(raw)
                if self._check(line):
                    yield line
            except UsageError as error:
                self.bad += 1
                if self.bad <= MOST_NAMED:
                    shown = line[:SHOWN].decode(errors="replace")
                    print(f"Line {number}, {shown!r}: {error}.", file=sys.stderr)
        if self.bad > MOST_NAMED:
            print(f"... and {self.bad - MOST_NAMED:,} more lines.", file=sys.stderr)

    def _raw(self) -> Iterator[bytes]:
        """Yields all lines. Lines that are too long are cut."""
        while raw := self._source.readline(MOST_LINE_BYTES + 1):
            yield raw
            while len(raw) > MOST_LINE_BYTES and not raw.endswith(b"\n"):
                raw = self._source.readline(MOST_LINE_BYTES + 1)


def _refuse_too_long(line: bytes) -> None:
    if len(line) > MOST_LINE_BYTES:
        raise UsageError(f"it is longer than {MOST_LINE_BYTES:,} bytes")
