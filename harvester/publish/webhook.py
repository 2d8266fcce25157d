"""Posts events to a webhook, signed by the rules of Standard Webhooks (standardwebhooks.com).

The receiver is untrusted. It is reached at a public address unless the settings permit another, redirects are not
followed, and a response is read only for its status and Retry-After.
"""

import asyncio
import hmac
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

import aiohttp
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import ResolveResult
from aiohttp.tracing import Trace
from scrapy.exceptions import IgnoreRequest
from w3lib.url import safe_url_string
from yarl import URL

from harvester.config import Config
from harvester.download.addresses import permitted
from harvester.exceptions import UsageError
from harvester.parsers.web.rate_limits import rate_limits
from harvester.publish.events import MEDIA_TYPE, Event
from harvester.publish.faults import describe_fault
from harvester.publish.sending import SendFailure, asked_pause
from harvester.publish.sinks import WebhookSink

MOST_ANSWER = 64 * 1024
"""Bytes of a response that are read, so that the connection can be used again."""
_OF_EVENT = frozenset({400, 406, 411, 413, 414, 415, 422, 431})
"""Statuses for a refused event, which do not concern the sender."""
_GONE = 410
_SLOW_DOWN = frozenset({429, 502, 503, 504})


class WebhookSender:
    """Confirms an event after a status 2xx."""

    def __init__(self, sink: WebhookSink, config: Config) -> None:
        self._sink = sink
        self._config = config
        self._poster: Poster | None = None
        self.BATCH = sink.at_once

    async def send(self, events: Sequence[Event]) -> list[SendFailure | None]:
        try:
            secrets, url = self._sink.secrets(), self._sink.address()
        except UsageError as error:  # the file of secrets is being changed
            return [SendFailure(str(error))] * len(events)
        poster = self._poster = self._poster or Poster(self._config, self._sink.at_once, self._sink.timeout_s)
        return await asyncio.gather(*(poster.post(url, secrets, event) for event in events))

    async def close(self) -> None:
        if self._poster is not None:
            await self._poster.close()
            self._poster = None


class Poster:
    """Posts events to receivers at any address: see PermittedConnector. Must be created in a running loop."""

    def __init__(self, config: Config, at_once: int, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._session = ClientSession(
            connector=PermittedConnector(config, limit=at_once),
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(total=timeout_s),
            headers={"User-Agent": config.user_agent, "Content-Type": MEDIA_TYPE},
        )

    async def close(self) -> None:
        await self._session.close()

    async def post(self, url: str, secrets: Sequence[bytes], event: Event) -> SendFailure | None:
        """Posts the event. Returns None when the receiver has confirmed it."""
        headers = signed(event, secrets, int(time.time()))
        address = URL(safe_url_string(url), encoded=True)  # aiohttp would decode escapes that may be signed
        try:
            async with self._session.post(address, data=event.body, headers=headers, allow_redirects=False) as response:
                failure = failure_of(response)
                with suppress(TimeoutError, ClientError, OSError):  # the status was the answer
                    await response.content.read(MOST_ANSWER)
                return failure
        except TimeoutError:
            return SendFailure(f"it did not answer in {self._timeout_s:g} s")
        except (ClientError, OSError, IgnoreRequest) as error:
            return SendFailure(describe_fault(error))


def signed(event: Event, secrets: Sequence[bytes], at: int) -> dict[str, str]:
    """Returns the headers that identify event and sender, signed at `at` (Unix time) by each secret."""
    content = f"{event.id}.{at}.".encode() + event.body
    marks = [b64encode(hmac.digest(secret, content, sha256)).decode() for secret in secrets]
    return {
        "webhook-id": event.id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{mark}" for mark in marks),
    }


def failure_of(response: ClientResponse) -> SendFailure | None:
    """Returns the failure in a response, None if the receiver has the event."""
    status = response.status
    if 200 <= status < 300:
        return None
    said = f"it answered HTTP {status}"
    if 300 <= status < 400:
        return SendFailure(f"{said}, and redirects are not followed")
    if status == _GONE:
        return SendFailure(f"{said}: it wants no more events", is_final=True)
    pause_s, asked = None, ""
    if status in _SLOW_DOWN:
        headers = {name.lower(): value for name, value in response.headers.items()}
        pause_s, asked = asked_pause(rate_limits(headers, time.time()).retry_after_s)
    return SendFailure(said + asked, is_of_event=status in _OF_EVENT, pause_s=pause_s)


class PermittedConnector(TCPConnector):
    """Connects to the addresses that were checked, so that a name cannot change in between."""

    def __init__(self, config: Config, *, limit: int) -> None:
        super().__init__(limit=limit)
        self._config = config

    async def _resolve_host(self, host: str, port: int, traces: Sequence[Trace] | None = None) -> list[ResolveResult]:
        """Resolves a host to permitted addresses. It also checks literal addresses."""
        found = await super()._resolve_host(host, port, traces=traces)
        good = permitted(host, port, [each["host"] for each in found], self._config)
        if not good:
            raise aiohttp.ClientError(f"{host} has no address")
        return [each for each in found if each["host"] in good]
