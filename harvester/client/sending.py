"""Sends the items of an input to a controller in parts. Each part is stored there before the next is read.

A part is retried with the same idempotency key until the controller has answered, so that it is stored once. Memory
does not grow with the input.
"""

import asyncio
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from harvester.client.connection import Body, ControllerConnection
from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.items import Found
from harvester.jobs.inputs import PACKED, BadLine, packed
from harvester.jobs.submission import CHUNK, BadLines, Submitted, bad_file, with_progress

FILE_CHUNK = 5000
"""Number of items in a part, for an input that can be read at once."""
MOST_BYTES = 4 << 20
"""Bytes of items and bad lines that make a part full, however few there are."""


class _Part(NamedTuple):
    content: bytes
    bad: list[BadLine]
    """Bad lines found while the part was read."""


class Parts:
    """Sends an input in parts. Call `begin`, then `send`."""

    def __init__(
        self,
        connection: ControllerConnection,
        path: str,
        query: dict[str, Any],
        spider: str,
        config: Config,
        *,
        goes_on: bool,
    ) -> None:
        """`goes_on`: True if the same command, repeated, adds the rest to the same job."""
        self._connection = connection
        self._path = path
        self._query = query
        self._goes_on = goes_on
        self._run = secrets.token_hex(16)
        self._number = 0
        """Number of the next part."""
        self._bad = BadLines(bad_file(config, spider))
        self._job: str | None = None
        self._begun = False
        self._accepted = self._known = 0

    async def begin(self) -> None:
        """Sends an empty part, so that errors are raised before the first item is read."""
        await self._ask(b"")

    async def send(self, lines: Iterable[Found | BadLine], *, at_hand: bool = False) -> Submitted:
        """Sends all lines. `at_hand`: True if the lines can be read at once, so that parts may be large.

        Raises the errors of the controller and of reading. Parts sent earlier stay, and the error says how many items
        they had.
        """
        rest = iter(lines)
        with self._bad:
            try:
                while (part := await asyncio.to_thread(_read, rest, FILE_CHUNK if at_hand else CHUNK)) is not None:
                    bad = part.bad
                    if part.content:
                        bad = sorted(bad + await self._take(part.content), key=lambda each: each.line)
                    for each in bad:
                        self._bad.add(each)
            except HarvesterError as error:
                if not self._job:
                    raise
                raise with_progress(error, self._job, self._accepted + self._known, self._goes_on) from None
        bad_lines = self._bad
        return Submitted(
            self._job,
            self._begun,
            self._accepted,
            self._known,
            bad_lines.number,
            bad_lines.first,
            bad_lines.path,
        )

    async def _take(self, content: bytes) -> list[BadLine]:
        """Sends one part and returns the lines that the controller refused."""
        came = await self._ask(content)
        if self._job is None and came.job:
            self._job, self._begun = came.job, came.begun
        self._accepted += came.accepted
        self._known += came.known
        return came.bad_lines

    async def _ask(self, content: bytes) -> Submitted:
        key = f"{self._run}-{self._number}"
        self._number += 1
        body = Body(content, PACKED)
        return await self._connection.ask("POST", self._path, Submitted, query=self._query, body=body, key=key)


def _read(lines: Iterator[Found | BadLine], most: int) -> _Part | None:
    """Reads the next part; None at the end of the input."""
    content: list[bytes] = []
    bad: list[BadLine] = []
    size = 0
    for each in lines:
        if isinstance(each, BadLine):
            bad.append(each)
            size += len(each.text)
        else:
            content.append(packed(each))
            size += len(content[-1])
        if len(content) == most or len(bad) == most or size > MOST_BYTES:
            break
    return _Part(b"".join(content), bad) if content or bad else None
