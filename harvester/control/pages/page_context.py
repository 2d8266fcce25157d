"""The context of all views: the controller's context, the broadcaster, and the way to run actions."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from bson import ObjectId
from fastapi import FastAPI
from nicegui import Client, ui
from pymongo.errors import PyMongoError
from starlette.requests import HTTPConnection
from starlette.types import Scope as Connection

from harvester.control.auth import Caller, caller_of
from harvester.control.context import ControllerContext, context_of
from harvester.control.pages.broadcaster import Broadcaster
from harvester.control.tokens import Scope
from harvester.exceptions import HarvesterError
from harvester.masking import mask
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

T = TypeVar("T")
Say = Callable[[str], None]
"""Shows an error on a page."""

TOKENS_S = 10.0
"""Seconds between two checks of the tokens of open pages."""


def complain(said: str) -> None:
    """Shows an error on the page, in plain words."""
    ui.notify(mask(said), type="negative", position="bottom", multi_line=True, timeout=10_000, close_button="Close")


@dataclass(frozen=True, slots=True)
class PageContext:
    """The page context of a process."""

    app: FastAPI
    broadcaster: Broadcaster = field(default_factory=Broadcaster)

    @property
    def here(self) -> ControllerContext:
        """Returns the controller's context. Raises ApiProblem while the app starts or ends."""
        return context_of(HTTPConnection({"type": "http", "app": self.app}))

    async def caller(self, connection: Connection) -> Caller | None:
        """Returns the caller who opened a page, or None without a valid token."""
        return await caller_of(HTTPConnection({**connection, "app": self.app}))

    async def watch_tokens(self) -> None:
        """Reloads pages when their token becomes invalid, which leads to the login. Never returns."""
        while True:
            await asyncio.sleep(TOKENS_S)
            for client in self.broadcaster.clients:
                try:
                    await self._reload_if_nobody(client)
                except PyMongoError:
                    pass  # the next round checks it again
                except Exception:  # a fault on one page must not stop the checks of others
                    logger.exception("It could not be looked whether somebody is known still")

    async def _reload_if_nobody(self, client: Client) -> None:
        if await self.caller(client.request.scope) is None:
            self.broadcaster.dismiss(client)
            with client:
                ui.navigate.reload()

    async def who(self) -> str:
        """Returns the name of the token that opened this page."""
        caller = await self.look_up(lambda: self.caller(ui.context.client.request.scope))
        return caller.token.name if caller else ""

    async def look_up(self, ask: Callable[[], Awaitable[T | None]], say: Say = complain) -> T | None:
        """Reads something for the user of a page. Returns None after an error, which `say` shows."""
        try:
            if await self.caller(ui.context.client.request.scope):
                return await ask()
            say("Your token is no longer good: log in again.")
        except HarvesterError as error:
            say(str(error))
        except PyMongoError as error:
            say(str(mongodb.unavailable(error)))
        return None

    async def act(
        self,
        action: str,
        target: str,
        do: Callable[[], Awaitable[T]],
        needs: Scope = Scope.OPERATE,
        say: Say = complain,
    ) -> T | None:
        """Runs an action of a page, if the user's token permits it, and adds it to the audit.

        Returns None if it failed; `say` shows the error.
        """
        client = ui.context.client
        begun = await self.look_up(lambda: self._begin(action, target, needs, say), say)
        if begun is None:
            return None
        done, status = None, 500
        try:
            done = await do()
            status = 200
        except HarvesterError as error:
            status = 409
            say(str(error))
        except PyMongoError as error:
            say(str(mongodb.unavailable(error)))
        except Exception:  # NiceGUI would only log it
            logger.exception("What somebody did at a page failed")
            say("There is a fault in this program; its log has the traceback.")
        finally:
            self.broadcaster.hurry(client)
            try:
                await self.here.audit.end(begun, status)
            except PyMongoError as error:
                logger.warning("The audit does not have the end of %s: %s", action, mongodb.unavailable(error))
        return done

    async def _begin(self, action: str, target: str, needs: Scope, say: Say) -> ObjectId | None:
        """Adds a line to the audit. Returns None if the token does not permit the action, and shows so."""
        caller = await self.caller(ui.context.client.request.scope)
        if caller is None:
            return None
        if not caller.token.scope.allows(needs):
            say(f"This needs a token with the scope {needs}; yours has the scope {caller.token.scope}.")
            return None
        return await self.here.audit.begin(caller.token.id, caller.token.name, action, target, caller.address)
