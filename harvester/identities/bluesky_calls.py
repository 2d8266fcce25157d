"""The few calls that a login to Bluesky makes, by a client of their own: none of them passes through the crawl."""

import json
import logging
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from pydantic import SecretStr
from scrapy.http import Headers

from harvester.exceptions import SessionError
from harvester.identities.secret_file import Pause
from harvester.middlewares.throttle import LONGEST_WAIT_S, reset_in, retry_after

logger = logging.getLogger(__name__)

TRIES = 8
"""Of a call that gets no answer, about two minutes in all."""
TRIES_UNKNOWN = 3
"""The same for a host that never answered: it is probably not there."""
TIMEOUT_S = 30.0
MOST_BYTES = 1_000_000
"""Of an answer."""


class Answer(NamedTuple):
    """Of a call. `body` is {} when it is not a JSON object."""

    status: int
    headers: Headers
    body: dict[str, Any]


class LoginCalls:
    """Calls com.atproto.server.* methods; obeys rate limits; tries again what got no answer."""

    def __init__(self, user_agent: str, pause: Pause) -> None:
        self._user_agent = user_agent
        self._pause = pause
        self._answered: set[str] = set()

    async def call(
        self,
        verb: str,
        server: str,
        name: str,
        *,
        token: SecretStr | None = None,
        body: dict[str, str] | None = None,
        tries: int = TRIES,
    ) -> Answer:
        """The answer, unless it is 429 or 5xx. Raises SessionError when none comes."""
        host = urlsplit(server).netloc
        tried = 0
        while True:
            tried += 1
            wait = min(2.0 ** (tried - 1), 60.0)
            try:
                answer = await self._send(verb, f"{server}/xrpc/com.atproto.server.{name}", token, body)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                fault = str(error) or type(error).__name__
            else:
                self._answered.add(host)
                if answer.status != 429 and answer.status < 500:
                    return answer
                fault = f"HTTP {answer.status}"
                if answer.status == 429:
                    wait = retry_after(answer.headers) or reset_in(answer.headers) or wait
            if wait > LONGEST_WAIT_S:
                raise SessionError(f"{name} at {server}: {fault}. Try again in {wait / 3600:.1f} hours.")
            if tried >= (tries if host in self._answered else min(tries, TRIES_UNKNOWN)):
                times = "once" if tried == 1 else f"{tried} times"
                advice = "Try again later, and see whether HARVESTER_BLUESKY_PDS is right."
                raise SessionError(f"{name} at {server} failed {times}: {fault}. {advice}")
            logger.warning("%s at %s: %s. Waiting %.0f s", name, server, fault, wait)
            await self._pause(wait, host)

    async def _send(self, verb: str, url: str, token: SecretStr | None, body: dict[str, str] | None) -> Answer:
        headers = {"User-Agent": self._user_agent, "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token.get_secret_value()}"
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, skip_auto_headers=("Content-Type",)) as client,
            # A redirect would take the password or the token to where it leads.
            client.request(verb, url, headers=headers, data=data, allow_redirects=False) as response,
        ):
            text = b""
            async for chunk in response.content.iter_any():
                text += chunk
                if len(text) > MOST_BYTES:
                    raise ValueError("the answer is larger than allowed")
            return Answer(response.status, Headers(list(response.headers.items())), _json_object(text))


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
