"""Query parameters that a route does not know are refused: one that is misspelt would be ignored in silence."""

from collections import Counter
from typing import Any

from starlette.requests import Request

from harvester.control.problems import Fault, Problem
from harvester.validation import did_you_mean

Known = dict[str, dict[str, bool]]
"""Id of an operation -> its query parameters, each with whether it may be given several times."""


async def check_parameters(request: Request) -> None:
    """Raises Problem for a query parameter that the route does not know, or that is given twice in place of once."""
    route: Any = request.scope["route"]
    known = _known(request)[str(route.operation_id)]
    faults = [
        Fault(f"/query/{name}", _fault(name, known))
        for name, times in Counter(name for name, _ in request.query_params.multi_items()).items()
        if name not in known or (times > 1 and not known[name])
    ]
    if faults:
        said = "; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults[:5])
        raise Problem(422, "invalid", said, errors=faults)


def _fault(name: str, known: dict[str, bool]) -> str:
    if name in known:
        return "it is given several times, and means one thing"
    near = did_you_mean(name, known) or (f"; there is {', '.join(known)}" if known else "; this route has none")
    return f"there is no such parameter{near}"


def _known(request: Request) -> Known:
    """Of all routes of the app, as its OpenAPI document has them."""
    state = request.app.state
    if not hasattr(state, "parameters"):
        operations = [each for path in request.app.openapi()["paths"].values() for each in path.values()]
        state.parameters = {
            each["operationId"]: {
                parameter["name"]: _takes_several(parameter["schema"])
                for parameter in each.get("parameters", ())
                if parameter["in"] == "query"
            }
            for each in operations
        }
    found: Known = state.parameters
    return found


def _takes_several(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "array"
