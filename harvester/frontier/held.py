"""What requests of a single run need and no store can keep: a lambda, an inner function, an open file, a loader."""

import secrets
from itertools import count
from typing import Any


class NotHeldError(Exception):
    """A request needs what was in a process that has ended."""


class HeldParts:
    """Holds parts of requests in this process. A request in the frontier says where they are."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(8)
        self._numbers = count()
        self._parts: dict[int, dict[str, Any]] = {}

    def put(self, parts: dict[str, Any]) -> tuple[str, int]:
        """Holds attributes of a request by their names. Returns where they are."""
        number = next(self._numbers)
        self._parts[number] = parts
        return self._process, number

    def get(self, place: tuple[str, int]) -> dict[str, Any]:
        """Returns what was put there. It stays, since a request that is parked comes again. Raises NotHeldError."""
        process, number = place
        if process != self._process or number not in self._parts:
            raise NotHeldError("what it needs was only in the process that made the request, which has ended")
        return self._parts[number]
