"""Parts of requests that no store can save, for crawls of one run: lambdas, inner functions, open files, loaders."""

import secrets
from itertools import count
from typing import Any


class NotHeldError(Exception):
    """A request needs parts that were held by a process that has ended."""


class HeldParts:
    """Holds parts of requests in this process. A request in the frontier records the place where its parts are."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(8)
        self._numbers = count()
        self._parts: dict[int, dict[str, Any]] = {}

    def put(self, parts: dict[str, Any]) -> tuple[str, int]:
        """Holds attributes of a request by their names. Returns their place."""
        number = next(self._numbers)
        self._parts[number] = parts
        return self._process, number

    def get(self, place: tuple[str, int]) -> dict[str, Any]:
        """Returns the parts at that place. They stay, since a parked request is leased again. Raises NotHeldError."""
        process, number = place
        if process != self._process or number not in self._parts:
            raise NotHeldError("what it needs was only in the process that made the request, which has ended")
        return self._parts[number]
