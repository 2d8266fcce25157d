"""Signing in by a JSON call that gives a token, and replacing the token before it ends."""

import json
import time
from typing import Any

from scrapy import Request
from scrapy.http import Response

from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.login_methods import REFUSALS, Fetch, LoginFailed, LoginRefused, check_answered
from harvester.identities.state import Session
from harvester.masking import mask
from harvester.sites.identities import Token

MARGIN_S = 60.0
"""A token is replaced so long before it ends; a short-lived one a quarter of its life before."""


class TokenLogin:
    """Posts the credentials as JSON; takes token, refresh token and life from the answer."""

    def __init__(self, call: Token, credentials: Credentials, fetch: Fetch) -> None:
        self._call = call
        self._credentials = credentials
        self._fetch = fetch

    async def sign_in(self, old: Session | None) -> Session:
        refreshed = await self._refreshed(old) if old else None
        if refreshed:
            return refreshed
        session = Session(Jar(), {})
        body = {name: self._credentials.fill(value) for name, value in self._call.body.items()}
        answer = await self._post(self._call.url, body, session)
        made = self._read(answer, session.jar, "")
        if made is None:
            said = f"HTTP {answer.status}"
            if answer.status in REFUSALS:
                raise LoginRefused(said)
            raise LoginFailed(f"the answer holds no token at {self._call.token}: {said}")
        return made

    async def _refreshed(self, old: Session) -> Session | None:
        """None when there is no refresh token, or the server refuses it."""
        refresh = self._call.refresh
        if refresh is None or not old.refresh_token:
            return None
        body = {name: value.replace("{refresh_token}", old.refresh_token) for name, value in refresh.body.items()}
        unnamed = Session(old.jar, {})  # an ended token would be refused where it is not asked for
        return self._read(await self._post(refresh.url, body, unnamed), old.jar, old.refresh_token)

    async def _post(self, url: str, body: dict[str, str], session: Session) -> Response:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = Request(url, method="POST", body=json.dumps(body), headers=headers, dont_filter=True)
        answer = await self._fetch(request, session)
        check_answered(answer)
        return answer

    def _read(self, answer: Response, jar: Jar, refresh_token: str) -> Session | None:
        call = self._call
        try:
            told = json.loads(answer.body)
        except ValueError:
            return None
        token = at_path(told, call.token)
        if answer.status >= 300 or not isinstance(token, str) or not token:
            return None
        mask.add_passing(token)
        life = at_path(told, call.expires_in) if call.expires_in else None
        renew_at = 0.0
        if isinstance(life, (int, float)) and life > 0:
            renew_at = time.time() + life - min(MARGIN_S, life / 4)
        if call.refresh and isinstance(given := at_path(told, call.refresh.refresh_token), str):
            refresh_token = given
        headers = {name: value.replace("{token}", token) for name, value in call.headers.items()}
        return Session(jar, headers, refresh_token=refresh_token, renew_at=renew_at)


def at_path(value: Any, path: str) -> Any:
    """What stands in a JSON value at a path like `data.0.token`; None when nothing does."""
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
