"""Signs in to a site by steps in a browser, for the identities in the site's entry."""

import re
from typing import Any

from pydantic import ValidationError
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from harvester.config import load_config
from harvester.exceptions import FetchError, HarvesterError, UsageError
from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.login_methods import LoginFailed, LoginRefused, refuses, shows
from harvester.identities.logins import refuse_secrets
from harvester.identities.state import Session
from harvester.internal_meta import IDENTITY, LOGIN, LOGIN_SITE, SIGN_IN
from harvester.meta import RENDER, RENDERING
from harvester.proxies.budget import BudgetSpent
from harvester.shutdown import RunEnding
from harvester.sites import Site
from harvester.sites.browser import BrowserStep
from harvester.sites.identities import Sign
from harvester.sites.problems import problems


class SignIn:
    """Signs in during a crawl. Its pages pass through the engine: the throttle applies, and the identity's proxy is
    used."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    async def __call__(
        self, site: Site, credentials: Credentials, *, proxy_session: str, storage_state: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Runs the steps of the site's entry; the first one opens the page. Returns the storage_state afterwards.

        Raises LoginRefused, LoginFailed, and UsageError when the steps cannot be used.
        """
        table = site.identities.browser
        assert table is not None
        address, steps = _filled(site, credentials)
        meta = {
            LOGIN: Session(Jar(), {}),  # the browser has the cookies
            LOGIN_SITE: site.name,
            IDENTITY: proxy_session,
            SIGN_IN: storage_state or {},
            RENDER: True,
            RENDERING: {"steps": steps, "capture": (), "session": ""},
            "dont_retry": True,
        }
        assert self._crawler.engine
        try:
            response = await self._crawler.engine.download_async(Request(address, meta=meta, dont_filter=True))
        except (RunEnding, LoginFailed, BudgetSpent):
            raise
        except (FetchError, IgnoreRequest) as error:
            raise LoginFailed(credentials.hide(str(error))) from None
        except HarvesterError:
            raise
        except Exception as error:  # noqa: BLE001  a download may end with any error
            raise LoginFailed(credentials.hide(f"{type(error).__name__}: {error}")) from None
        state: dict[str, Any] = response.meta[SIGN_IN]
        if refusal := refuse_secrets(response.url, site.name, load_config()):
            raise LoginFailed(f"the steps end where the site's session is of no use: {refusal}")
        if shows(table.success, response, Jar(state["cookies"])):
            return state
        if refuses(Sign(), response):
            raise LoginRefused(f"{site.name} refuses the login of {credentials.name}. Check its name and password.")
        raise LoginFailed(f"the page after the steps (HTTP {response.status}) shows no sign of success")


def _filled(site: Site, credentials: Credentials) -> tuple[str, list[dict[str, Any]]]:
    """Returns the address of the first step, and the other steps with the credentials."""
    table = site.identities.browser
    assert table is not None
    address, *rest = table.steps
    open_at = address.get("open")
    if not isinstance(open_at, str) or not re.match(r"https?://", open_at):
        raise UsageError(
            f'{site.name}.identities.browser.steps: the first step opens a page: {{open = "https://..."}}.'
        )
    filled = [step | {"value": credentials.fill(str(step["value"]))} if "value" in step else step for step in rest]
    for number, step in enumerate(filled, 2):
        try:
            BrowserStep.model_validate(step)
        except ValidationError as error:
            said = "; ".join(": ".join(filter(None, each)) for each in problems(error, BrowserStep).items())
            raise UsageError(f"{site.name}.identities.browser.steps: step {number}: {said}") from None
    return open_at, filled
