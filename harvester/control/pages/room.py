"""What all views share: the controller's context, the broadcaster, and the one way to do something."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fastapi import FastAPI
from nicegui import ui
from pymongo.errors import PyMongoError
from starlette.requests import HTTPConnection
from starlette.types import Scope as Connection

from harvester.control.auth import Caller, caller_of
from harvester.control.context import Context, context_of
from harvester.control.pages.broadcaster import Broadcaster
from harvester.control.tokens import Scope
from harvester.exceptions import HarvesterError
from harvester.masking import mask
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Room:
    """Of one process."""

    app: FastAPI
    broadcaster: Broadcaster = field(default_factory=Broadcaster)

    @property
    def here(self) -> Context:
        """Raises Problem while the app starts or ends."""
        return context_of(HTTPConnection({"type": "http", "app": self.app}))

    async def caller(self, connection: Connection) -> Caller | None:
        """Who opened a page; None: nobody that is known."""
        return await caller_of(HTTPConnection({**connection, "app": self.app}))

    async def who(self) -> str:
        """The name of the token of whoever looks at this page."""
        caller = await self.caller(ui.context.client.request.scope)
        return caller.token.name if caller else ""

    async def act(
        self, action: str, target: str, do: Callable[[], Awaitable[T]], needs: Scope = Scope.OPERATE
    ) -> T | None:
        """Does what somebody wants on a page, if their token allows it, and writes it into the audit.

        None: it was not done, and the page says why.
        """
        caller = await self.caller(ui.context.client.request.scope)
        if caller is None:
            complain("Your token is no longer good: log in again.")
            return None
        if not caller.token.scope.allows(needs):
            complain(f"This needs a token with the scope {needs}; yours has the scope {caller.token.scope}.")
            return None
        line = await self.here.audit.begin(caller.token.id, caller.token.name, action, target, caller.address)
        status = 500
        try:
            done = await do()
            status = 200
        except HarvesterError as error:
            status = 409
            complain(str(error))
        except PyMongoError as error:
            complain(str(mongodb.unavailable(error)))
        else:
            return done
        finally:
            await self.here.audit.end(line, status)
        return None


def complain(said: str) -> None:
    """Says on the page what went wrong, in plain words."""
    ui.notify(mask(said), type="negative", position="bottom", multi_line=True, timeout=10_000, close_button="Close")
