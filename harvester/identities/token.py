"""Login by a JSON call that returns a token, which is replaced before it ends."""

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any

from scrapy import Request
from scrapy.http import Response

from harvester.download.addresses import origin_of
from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.login_methods import REFUSALS, Fetch, LoginFailed, LoginRefused, check_answered
from harvester.identities.state import Session
from harvester.masking import mask
from harvester.outcomes import classify
from harvester.sites.identities import TokenLoginEntry

MARGIN_S = 60.0
"""Seconds before its end when a token is replaced. A short-lived token is replaced after three quarters of the time."""
MOST_LIFE_S = 10 * 365 * 86_400
"""Maximum plausible life of a token in seconds. With a longer or invalid life, it is used until it is refused."""


class TokenLogin:
    """Posts the credentials as JSON, and reads token, refresh token, life and origin from the response."""

    def __init__(self, call: TokenLoginEntry, credentials: Credentials, fetch: Fetch) -> None:
        self._call = call
        self._credentials = credentials
        self._fetch = fetch

    async def sign_in(self, old: Session | None) -> Session:
        refreshed = await self._refreshed(old) if old else None
        if refreshed:
            return refreshed
        call = self._call
        session = Session(Jar(), {}, origin=origin_of(call.url) if call.origin else "")
        body = {name: self._credentials.fill(value) for name, value in call.body.items()}
        answer = await self._post(call.url, body, session)
        made = self._read(answer, session)
        if made is None:
            said = classify(answer, answer.request).reason or f"HTTP {answer.status}"
            if answer.status in REFUSALS:
                raise LoginRefused(said)
            raise LoginFailed(f"the answer holds no token at {call.token}: {said}", answer=answer)
        return made

    async def _refreshed(self, old: Session) -> Session | None:
        """Refreshes the session. Returns None without a refresh token, or when the server refuses it."""
        refresh = self._call.refresh
        if refresh is None or not old.refresh_token:
            return None
        body, headers = (_filled(each, "refresh_token", old.refresh_token) for each in (refresh.body, refresh.headers))
        # Without the headers of the old session: some servers refuse an ended token where none is needed.
        session = Session(old.jar, headers, refresh_token=old.refresh_token, origin=old.origin)
        return self._read(await self._post(old.at_origin(refresh.url), body, session), session)

    async def _post(self, url: str, body: dict[str, str], session: Session) -> Response:
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body else {})
        content = json.dumps(body) if body else ""
        answer = await self._fetch(
            Request(url, method="POST", body=content, headers=headers, dont_filter=True), session
        )
        check_answered(answer)
        return answer

    def _read(self, answer: Response, asked_in: Session) -> Session | None:
        """Reads the session from the response. Refresh token and origin stay unchanged if it has none."""
        call = self._call
        try:
            told = json.loads(answer.body)
        except (ValueError, RecursionError):
            return None
        token = at_path(told, call.token)
        if answer.status >= 300 or not isinstance(token, str) or not _is_sendable(token):
            return None
        mask.add_passing(token)
        life = at_path(told, call.expires_in) if call.expires_in else _life_of(token)
        renew_at = 0.0
        if isinstance(life, (int, float)) and 0 < life < MOST_LIFE_S:
            renew_at = time.time() + life - min(MARGIN_S, life / 4)
        refresh_token = at_path(told, call.refresh.refresh_token) if call.refresh else None
        return Session(
            asked_in.jar,
            _filled(call.headers, "token", token),
            refresh_token=refresh_token if isinstance(refresh_token, str) else asked_in.refresh_token,
            renew_at=renew_at,
            origin=safe_origin(at_path(told, call.origin), asked_in.origin) if call.origin else "",
        )


def _filled(templates: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    return {key: template.replace(f"{{{name}}}", value) for key, template in templates.items()}


def at_path(value: Any, path: str) -> Any:
    """Returns the part of a JSON value at a path like `data.0.token` or `services.#pds.url`; None if it is missing."""
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, list) and key.startswith("#"):
            named = (each for each in value if isinstance(each, dict) and str(each.get("id")).endswith(key))
            value = next(named, None)
        else:
            return None
    return value


def safe_origin(named: object, known: str) -> str:
    """Returns the origin of the named address. Returns the known one without an address, or for a less protected
    one."""
    try:
        found = origin_of(named) if isinstance(named, str) else ""
    except ValueError:
        return known
    scheme, _, host = found.partition("//")
    return found if host and scheme in ("https:", known.partition("//")[0]) else known


def _life_of(token: str) -> float | None:
    """Returns the seconds of a token's life (a JWT, not verified), if it has them. Independent of any clock here."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        life: float = claims["exp"] - claims["iat"]
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return life


def _is_sendable(token: str) -> bool:
    """Returns True if the token can stand in a header."""
    return bool(token) and token.isascii() and token.isprintable()
