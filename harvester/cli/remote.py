"""The options `--url` and `--token-file`, which direct a command to a controller instead of local servers."""

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from harvester.cli.configured import load_config

if TYPE_CHECKING:  # imports inside commands keep shell completion quick
    from harvester.client.access import ControllerAccess

F = TypeVar("F", bound=Callable[..., Any])


class _Given(NamedTuple):
    url: str = ""
    token_file: Path | None = None


_NOTHING = _Given()
_given: ContextVar[_Given] = ContextVar("given", default=_NOTHING)
"""The options of the running command."""

_OPTIONS: dict[str, Any] = {
    "url": Annotated[
        str,
        typer.Option(metavar="URL", help="Ask the controller there, not servers of this machine. Else: HARVESTER_URL."),
    ],
    "token_file": Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the token for it. Else: HARVESTER_TOKEN.")
    ],
}


class RemoteTyper(typer.Typer):
    """A Typer that adds both options to each command."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        register = super().command(name, **options)

        def decorated(function: F) -> F:
            register(_with_options(function))
            return function

        return decorated


def chosen() -> "ControllerAccess | None":
    """Returns the controller to call; None for the servers of this machine. Raises UsageError."""
    given, config = _given.get(), load_config()
    if not given.url and not config.url:
        return None
    from harvester.client.access import access_of

    return access_of(config, given.url, given.token_file)


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def command(*, url: str = "", token_file: Path | None = None, **arguments: Any) -> Any:
        _given.set(_Given(url, token_file))
        return function(**arguments)

    own = inspect.signature(function)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_OPTIONS[name])
        for name, default in _Given._field_defaults.items()
    ]
    command.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
    command.__annotations__ = {**function.__annotations__, **_OPTIONS}
    return command
