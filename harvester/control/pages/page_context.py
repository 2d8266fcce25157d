"""What all views share: the controller's context, the broadcaster, and the one way to do something."""

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
"""Tells somebody at a page what went wrong."""

TOKENS_S = 10.0
"""How often it is looked whether those whose pages are open are known still."""


def complain(said: str) -> None:
    """Says on the page what went wrong, in plain words."""
    ui.notify(mask(said), type="negative", position="bottom", multi_line=True, timeout=10_000, close_button="Close")


@dataclass(frozen=True, slots=True)
class PageContext:
    """Of one process."""

    app: FastAPI
    broadcaster: Broadcaster = field(default_factory=Broadcaster)

    @property
    def here(self) -> ControllerContext:
        """Raises Problem while the app starts or ends."""
        return context_of(HTTPConnection({"type": "http", "app": self.app}))

    async def caller(self, connection: Connection) -> Caller | None:
        """Who opened a page; None: nobody that is known."""
        return await caller_of(HTTPConnection({**connection, "app": self.app}))

    async def watch_tokens(self) -> None:
        """Has the pages of those who are known no more loaded anew, which leads to the login. Ends never."""
        while True:
            await asyncio.sleep(TOKENS_S)
            for client in self.broadcaster.clients:
                try:
                    await self._reload_if_nobody(client)
                except PyMongoError:
                    pass  # it is asked again
                except Exception:  # one page's fault does not end the looks at others
                    logger.exception("It could not be looked whether somebody is known still")

    async def _reload_if_nobody(self, client: Client) -> None:
        if await self.caller(client.request.scope) is None:
            self.broadcaster.dismiss(client)
            with client:
                ui.navigate.reload()

    async def who(self) -> str:
        """The name of the token of whoever looks at this page."""
        caller = await self.look_up(lambda: self.caller(ui.context.client.request.scope))
        return caller.token.name if caller else ""

    async def look_up(self, ask: Callable[[], Awaitable[T | None]], say: Say = complain) -> T | None:
        """What somebody at a page asks for. None: it is not known, and the page says why, or `say` does."""
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
        """Does what somebody wants on a page, if their token allows it, and writes it into the audit.

        None: it was not done, and the page says why, or `say` does.
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
        except Exception:  # NiceGUI would tell nobody but the log
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
        """The line of the audit; None: it is not allowed, and the page says so."""
        caller = await self.caller(ui.context.client.request.scope)
        if caller is None:
            return None
        if not caller.token.scope.allows(needs):
            say(f"This needs a token with the scope {needs}; yours has the scope {caller.token.scope}.")
            return None
        return await self.here.audit.begin(caller.token.id, caller.token.name, action, target, caller.address)
