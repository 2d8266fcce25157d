"""Idempotency keys: a client that does not know whether its request arrived sends it again, and it is done only once.

The first request with a key holds the key during its work. Its response is saved for a day and answers repeated
requests. When a controller dies, its keys become free: the next identical request does the rest, which is safe because
all work under a key may be repeated. The header follows draft-ietf-httpapi-idempotency-key-header.
"""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Header, Request, Response
from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, PyMongoError

from harvester.control.problems import ApiProblem
from harvester.exceptions import HarvesterError
from harvester.jobs.ledger import now

Document = dict[str, Any]

KEYS = "idempotency_keys"
"""Name of the collection."""
KEPT_S = 86_400
"""Seconds to keep a response."""
KEPT = timedelta(seconds=KEPT_S)
BEAT_S = 1.0
"""Seconds between two heartbeats of a request in progress."""
SILENT_S = 10.0
"""Seconds without a heartbeat until the holder of a key counts as dead."""
MOST_KEY = 200
"""Maximum number of characters of a key."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Any word of yours, another for each thing to be done: with the same one it is done once. Needed.",
    ),
]


def fingerprint_of(request: Request, digest: str) -> str:
    """Returns the fingerprint that tells two requests apart: the method, the address and the digest of the body."""
    said = f"{request.method} {request.url.path}?{request.url.query} {digest}"
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()


def checked(key: str | None) -> str:
    """Returns the key without its optional quotation marks. Raises ApiProblem if it is missing or invalid."""
    if key is None:
        raise ApiProblem(400, "no_key", "Give a header Idempotency-Key: any word of yours, another for each request.")
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not 0 < len(key) <= MOST_KEY or not key.isascii() or not key.isprintable():
        raise ApiProblem(400, "no_key", f"An Idempotency-Key has 1 to {MOST_KEY} characters of ASCII.")
    return key


class IdempotencyKeys:
    """The idempotency keys of a database."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._keys = database[KEYS]

    async def make_indexes(self) -> None:
        await self._keys.create_indexes([IndexModel([("created_at", ASCENDING)], expireAfterSeconds=KEPT_S)])

    async def once(self, key: str, fingerprint: str, act: Callable[[str], Awaitable[Response]]) -> Response:
        """Returns the response of `act`, or the saved response of an earlier request with this key.

        `act` receives a word that identifies the work. A request that continues this one receives the same word; a
        request that uses the key after it expired receives another. Raises ApiProblem: 422 if the key belongs to
        another request, 409 while that request is in progress. When `act` refuses, the key is deleted. After any other
        exception the key is free for the same request.
        """
        holder = secrets.token_hex(8)
        held = await self._hold(key, fingerprint, holder)
        if kept := held["answer"]:
            return Response(kept["body"], kept["status"], {**kept["headers"], "Idempotent-Replayed": "true"})
        mine = {"_id": key, "holder": holder}
        word = f"{key} {fingerprint} {held['created_at'].timestamp()}"
        try:
            async with self._beating(mine):
                answer = await act(hashlib.sha256(word.encode()).hexdigest()[:16])
        except (ApiProblem, HarvesterError):
            with suppress(PyMongoError):
                await self._keys.delete_one(mine | {"answer": None})
            raise
        except BaseException:  # the work may be done, so the key is released for the same request only
            with suppress(PyMongoError):
                await self._keys.update_one(mine | {"answer": None}, {"$set": {"beat_at": held["created_at"] - KEPT}})
            raise
        headers = {name: answer.headers[name] for name in ("content-type", "location") if name in answer.headers}
        kept = {"status": answer.status_code, "headers": headers, "body": bytes(answer.body)}
        await self._keys.update_one(mine, {"$set": {"answer": kept}})
        return answer

    async def _hold(self, key: str, fingerprint: str, holder: str) -> Document:
        """Acquires the key and returns its document, which has an answer if an earlier request was completed."""
        at = now()
        fields = {"fingerprint": fingerprint, "holder": holder, "beat_at": at, "created_at": at, "answer": None}
        try:
            await self._keys.insert_one({"_id": key, **fields})
        except DuplicateKeyError:
            pass
        else:
            return fields
        known = await self._keys.find_one({"_id": key})
        if known and known["fingerprint"] != fingerprint:
            said = f"The Idempotency-Key {key!r} was given with another request. Give another one."
            raise ApiProblem(422, "other_request", said)
        if known and known["answer"]:
            return known
        if known and _is_silent(known["beat_at"]):
            same = {"_id": key, "holder": known["holder"], "beat_at": known["beat_at"]}
            taken = await self._keys.update_one(same, {"$set": {"holder": holder, "beat_at": at}})
            if taken.modified_count:
                return known
        said = f"The request with the Idempotency-Key {key!r} is being worked at. Ask again for its answer."
        raise ApiProblem(409, "under_way", said, headers={"Retry-After": str(int(SILENT_S))})

    @asynccontextmanager
    async def _beating(self, mine: Document) -> AsyncIterator[None]:
        async def beat() -> None:
            while True:
                await asyncio.sleep(BEAT_S)
                with suppress(PyMongoError):
                    await self._keys.update_one(mine, {"$set": {"beat_at": now()}})

        task = asyncio.create_task(beat())
        try:
            yield
        finally:
            task.cancel()


def _is_silent(beat_at: datetime) -> bool:
    return now() - beat_at > timedelta(seconds=SILENT_S)
