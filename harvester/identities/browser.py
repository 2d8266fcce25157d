"""Signing in by steps in a browser. The browser itself is another part's; here is what is asked of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from scrapy.crawler import Crawler

from harvester.components import get_component
from harvester.exceptions import UsageError
from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.login_methods import LoginFailed
from harvester.identities.secret_file import SecretFile
from harvester.identities.state import Session
from harvester.masking import mask
from harvester.sites import Site


class SignInProtocol(Protocol):
    """What the browser part offers."""

    async def __call__(
        self, site: Site, credentials: Credentials, *, proxy_session: str, storage_state: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Takes the steps of `site.identities.browser` in a fresh context (or one with `storage_state`).

        Returns Playwright's storage_state when the sign of success is there. Raises LoginRefused when the site
        says no to the credentials, LoginFailed when nothing can be told.
        """


class Keep(Protocol):
    """What the identities offer to the browser part."""

    def __call__(self, path: str, generation: str, state: dict[str, Any], write: Callable[[], bool]) -> bool:
        """Has what pages made of an identity's storage_state written to its file, by `write`, and gives its result.

        False, and nothing is written, when the session of this generation has ended, or another login has replaced it.
        Raises filelock.Timeout while another process is at the file.
        """


class BrowserLink:
    """Joins the browser and the identities of a crawl. Each puts here what it offers when it is opened."""

    sign_in: SignInProtocol | None = None
    keep: Keep | None = None


class BrowserLogin:
    """Has a browser sign in, and keeps its storage_state in a file that Playwright reads."""

    def __init__(
        self, crawler: Crawler, site: Site, credentials: Credentials, proxy_session: str, storage_state: Path
    ) -> None:
        sign_in = get_component(crawler, BrowserLink).sign_in
        if sign_in is None:
            raise UsageError(
                f"{site.name} is signed in to by a browser, which needs the browser extra:"
                " pip install 'harvester[browser]'"
            )
        self._sign_in = sign_in
        self._site = site
        self._credentials = credentials
        self._proxy_session = proxy_session
        self._file = SecretFile(storage_state)
        self._afresh = False

    async def sign_in(self, old: Session | None) -> Session:
        before = _read(self._file) if old and not self._afresh else None
        self._afresh = True  # when it fails: what was kept may be what the steps do not get along with
        state = await self._sign_in(
            self._site, self._credentials, proxy_session=self._proxy_session, storage_state=before
        )
        try:
            session = Session(Jar(state["cookies"]), {})
        except (KeyError, TypeError) as error:
            raise LoginFailed(f"the browser gave no storage_state: {error!r}") from None
        for origin in state.get("origins") or ():
            mask.add_passing(*(str(each.get("value", "")) for each in origin.get("localStorage") or ()))
        self._file.write(json.dumps(state))
        self._afresh = False
        return session


def _read(file: SecretFile) -> dict[str, Any] | None:
    try:
        state = json.loads(file.read() or b"null")
    except ValueError:
        return None
    return state if isinstance(state, dict) else None
