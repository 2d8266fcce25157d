"""Login by steps in a browser: the protocols between the identities and the browser room."""

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
    """The login that the browser room offers."""

    async def __call__(
        self, site: Site, credentials: Credentials, *, proxy_session: str, storage_state: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Runs the steps of `site.identities.browser` in a new context, or in one with `storage_state`.

        Returns Playwright's storage_state when the sign of success appears. Raises LoginRefused when the site refuses
        the credentials, LoginFailed when neither is certain.
        """


class Keep(Protocol):
    """The saving that the identities offer to the browser room."""

    def __call__(self, path: str, generation: str, state: dict[str, Any], write: Callable[[], bool]) -> bool:
        """Calls `write` to save an identity's storage_state after pages changed it, and returns its result.

        Returns False, and writes nothing, when the session of this generation has ended or another login has replaced
        it. Raises filelock.Timeout while another process uses the file.
        """


class BrowserLink:
    """Joins the browser and the identities of a crawl. Each sets its function here when it is opened."""

    sign_in: SignInProtocol | None = None
    keep: Keep | None = None


class BrowserLogin:
    """Lets a browser sign in, and saves its storage_state in a file that Playwright reads."""

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
        self._afresh = True  # after a failure, the saved state may be what the steps do not work with
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
