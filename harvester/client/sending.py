"""Sends the items of an input to a controller, a part after another: each is safe there before the next is read.

A part is asked for again until the controller has answered, with the same idempotency key, so it is done once. Memory
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
"""Items of a part, of an input that need not be waited for."""
MOST_BYTES = 4 << 20
"""After which a part is full, however few items and bad lines it has."""


class _Part(NamedTuple):
    content: bytes
    bad: list[BadLine]
    """Found while it was read."""


class Parts:
    """What is sent of one input. `begin`, then `send`."""

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
        """`goes_on`: whether the same command adds the rest to the same job."""
        self._connection = connection
        self._path = path
        self._query = query
        self._goes_on = goes_on
        self._run = secrets.token_hex(16)
        self._number = 0
        """Of the part that is sent next."""
        self._bad = BadLines(bad_file(config, spider))
        self._job: str | None = None
        self._begun = False
        self._accepted = self._known = 0

    async def begin(self) -> None:
        """Sends nothing: what can be known to be wrong before the first item is refused now."""
        await self._ask(b"")

    async def send(self, lines: Iterable[Found | BadLine], *, at_hand: bool = False) -> Submitted:
        """Sends all of them. `at_hand`: whether they can be read at once.

        Raises what the controller does, and what reading raises. What was sent before stays, as is said.
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
        """Those lines that the controller finds bad."""
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
    """None: there are no more."""
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
