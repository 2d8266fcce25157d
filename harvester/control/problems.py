"""Problem details (RFC 9457): how every error of the API looks."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple

from bson.errors import BSONError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pymongo.errors import PyMongoError
from starlette.exceptions import HTTPException

from harvester.exceptions import (
    HarvesterError,
    JobConflict,
    ServiceError,
    StorageError,
    UnknownJob,
    UnknownRecord,
    UnknownRun,
    UnknownSink,
    UnknownWebhook,
    UsageError,
)
from harvester.masking import mask
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_S = 5
"""Seconds that a client should wait before it retries when a server is down."""
MOST_DETAIL = 2000
"""Maximum number of characters of a problem's detail."""


@dataclass(frozen=True, slots=True)
class InputFault:
    """One thing that is wrong with a request."""

    pointer: str
    """JSON pointer to the faulty part: /body/items/3, /query/limit."""
    detail: str


@dataclass(frozen=True, slots=True)
class ProblemDetails:
    """What an answer says that is none of success."""

    type: str
    """The kind of problem, for programs: urn:harvester:problem:<word>."""
    title: str
    status: int
    detail: str
    """A sentence for people: the problem and its remedy."""
    instance: str = ""
    """The identifier of the log line. Set only for unexpected errors."""
    errors: Sequence[InputFault] = ()


class ApiProblem(Exception):
    """Ends a request with an error response. May be raised anywhere below a route."""

    def __init__(
        self, status: int, word: str, detail: str, *, headers: Mapping[str, str] = {}, errors: Sequence[InputFault] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.word = word
        self.headers = headers
        self.errors = errors


class _Kind(NamedTuple):
    status: int
    word: str


_KINDS: Mapping[type[HarvesterError], _Kind] = {
    UnknownJob: _Kind(404, "unknown"),
    UnknownWebhook: _Kind(404, "unknown"),
    UnknownSink: _Kind(404, "unknown"),
    UnknownRun: _Kind(404, "unknown"),
    UnknownRecord: _Kind(404, "unknown"),
    JobConflict: _Kind(409, "conflict"),
    UsageError: _Kind(422, "invalid"),
    StorageError: _Kind(507, "no_room"),
    ServiceError: _Kind(503, "server_away"),
}
_WORDS = {400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "unknown", 405: "method_not_allowed"}
_WORDS |= {408: "too_slow", 413: "too_large", 415: "media_type", 422: "invalid", 429: "too_many", 503: "server_away"}

_MEANINGS = {
    400: "The request cannot be read.",
    401: "There is no token, or it is none of this controller, or it was revoked.",
    403: "The token's scope does not reach so far.",
    404: "There is nothing of this name.",
    408: "The body came too slowly.",
    409: "The state of what is asked for does not allow it, or the same request is still being worked at.",
    413: "The body is larger than is taken.",
    415: "The body is of a kind that is not read.",
    422: "What is asked for cannot be used; `errors` say where.",
    429: "Too many wrong tokens from this address, or too many requests of this kind at once.",
    503: "A server that is needed is away.",
    507: "The controller has no room to write.",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns OpenAPI's description of error responses with these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {status: {"description": _MEANINGS[status], "content": content} for status in statuses}


USUAL = documented(400, 401, 403, 422, 429, 503)
"""The error responses of every route of the API."""


def answer(problem: ApiProblem, *, instance: str = "") -> JSONResponse:
    """Returns the problem as a response."""
    body: dict[str, Any] = {
        "type": f"urn:harvester:problem:{problem.word}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": mask(str(problem), MOST_DETAIL),
        "instance": instance,
        "errors": [{"pointer": each.pointer, "detail": each.detail} for each in problem.errors],
    }
    return JSONResponse(body, problem.status, dict(problem.headers), MEDIA_TYPE)


def problem_of(error: Exception) -> ApiProblem | None:
    """Returns the problem for an expected exception, or None for a bug."""
    if isinstance(error, ApiProblem):
        return error
    if isinstance(error, PyMongoError):
        error = mongodb.unavailable(error)
    if isinstance(error, HTTPException):
        word = _WORDS.get(error.status_code, "refused")
        return ApiProblem(error.status_code, word, str(error.detail), headers=error.headers or {})
    if isinstance(error, BSONError):
        return ApiProblem(422, "invalid", f"MongoDB cannot keep this: {error}.")
    if isinstance(error, UnicodeEncodeError):
        return ApiProblem(422, "invalid", "A text holds half a surrogate pair, which is no character.")
    if isinstance(error, HarvesterError):
        kind = next((kind for cause, kind in _KINDS.items() if isinstance(error, cause)), None)
        if kind:
            headers = {"Retry-After": str(RETRY_S)} if kind.status == 503 else {}
            return ApiProblem(kind.status, kind.word, str(error), headers=headers)
    return None


def handle(app: FastAPI) -> None:
    """Installs the handlers that turn every error of the app into a problem."""
    for kind in (ApiProblem, HTTPException, HarvesterError, PyMongoError, BSONError, UnicodeEncodeError):
        app.add_exception_handler(kind, _expected)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _unexpected)


async def _expected(request: Request, error: Exception) -> JSONResponse:
    problem = problem_of(error)
    return answer(problem) if problem else await _unexpected(request, error)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    faults = [InputFault(_pointer(each["loc"]), str(each["msg"])) for each in errors]
    if any(each["type"] == "json_invalid" for each in errors):
        return answer(ApiProblem(400, "bad_request", "The body is no JSON.", errors=faults))
    said = "; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults[:5])
    return answer(ApiProblem(422, "invalid", said, errors=faults))


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    number = secrets.token_hex(8)
    logger.error("%s %s failed (%s)", request.method, repr(request.url.path), number, exc_info=error)
    said = f"The controller has a fault. Its log says which, under {number}."
    return answer(ApiProblem(500, "fault", said), instance=f"urn:harvester:fault:{number}")


def _pointer(place: Sequence[int | str]) -> str:
    return "".join(f"/{str(each).replace('~', '~0').replace('/', '~1')}" for each in place)
