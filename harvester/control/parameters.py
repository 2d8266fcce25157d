"""Refuses query parameters that a route does not know; a misspelt one would be ignored silently."""

from collections import Counter
from typing import Any

from fastapi.openapi.utils import get_openapi
from starlette.requests import Request

from harvester.control.problems import ApiProblem, InputFault
from harvester.validation import did_you_mean

Known = dict[str, bool]
"""Query parameters of a route; True if the parameter may be repeated."""


async def check_parameters(request: Request) -> None:
    """Raises ApiProblem for a query parameter that the route does not know, or that must not be repeated."""
    if not request.query_params:
        return
    known = _known(request)
    faults = [
        InputFault(f"/query/{name}", _fault(name, known))
        for name, times in Counter(name for name, _ in request.query_params.multi_items()).items()
        if name not in known or (times > 1 and not known[name])
    ]
    if faults:
        said = "; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults[:5])
        raise ApiProblem(422, "invalid", said, errors=faults)


def _fault(name: str, known: Known) -> str:
    if name in known:
        return "it is given several times, and means one thing"
    near = did_you_mean(name, known) or (f"; there is {', '.join(known)}" if known else "; this route has none")
    return f"there is no such parameter{near}"


def _known(request: Request) -> Known:
    """Returns the route's parameters. Describes only this route, because a document with all routes takes a second."""
    route: Any = request.scope["route"]
    made: dict[str, Known] = request.app.state.parameters
    if route.operation_id not in made:
        paths = get_openapi(title="", version="", routes=[route])["paths"]
        described = [each for path in paths.values() for operation in path.values() for each in _parameters(operation)]
        made[route.operation_id] = {each["name"]: _takes_several(each["schema"]) for each in described}
    return made[route.operation_id]


def _parameters(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in operation.get("parameters", ()) if each["in"] == "query"]


def _takes_several(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "array"
