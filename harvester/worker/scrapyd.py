"""Deploys the project to a Scrapyd server, and removes a version that cannot run there.

Uses Scrapyd's HTTP API with aiohttp: scrapyd-deploy exits with 0 after a failed deploy, and scrapyd-client's classes
cannot upload. Scrapyd stores even an egg that it cannot run, and would use it for the next job.
"""

import asyncio
import contextlib
import json
import logging
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Self

import aiohttp
from yarl import URL

from harvester.config import Config
from harvester.exceptions import DeployError, ServiceError, UsageError
from harvester.publish.faults import describe_fault

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 120
"""Seconds to wait for a response: Scrapyd imports all spiders before it answers a deploy."""
LONGEST_ANSWER = 1500
"""Maximum number of characters of Scrapyd's message to show: the end, where a traceback has its error."""

_name = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True)
class Deployed:
    """The result of a deploy."""

    project: str
    version: str
    spiders: list[str]
    default: str
    """The version for jobs that name none: Scrapyd uses the highest."""


def new_version() -> str:
    """Returns the time as a version: in Scrapyd's order the newest version is the highest."""
    return f"{datetime.now(UTC):%Y%m%d%H%M%S}"


async def deploy(config: Config, url: str, project: str, version: str, egg: bytes) -> Deployed:
    """Deploys the egg and checks that its spiders can be listed; otherwise removes the version again.

    Raises UsageError for invalid names and versions, ServiceError when Scrapyd is unreachable or refuses the login,
    DeployError with Scrapyd's message when it cannot run the egg.
    """
    for what, name in (("project", project), ("version", version)):
        if not _name.fullmatch(name):
            raise UsageError(f"--{what}: {name!r} cannot be used; give letters, digits, - and _.")
    async with Scrapyd.of(config, url) as scrapyd:
        if version in await scrapyd.versions(project):
            raise UsageError(f"--version: {project} {version} is deployed already. Give another, or none.")
        try:
            await scrapyd.post("addversion", {"project": project, "version": version}, egg)
            spiders = await scrapyd.spiders(project, version)
        except _ErrorAnswer as error:
            fate = await _take_back(scrapyd, project, version)
            raise DeployError(f"Scrapyd cannot run {project} {version}, {fate}. It says:\n{error}") from None
        except (asyncio.CancelledError, ServiceError):
            fate = await _take_back(scrapyd, project, version)
            logger.warning("Whether %s %s can run is not known, %s", project, version, fate)
            raise
        versions = await scrapyd.versions(project)
        return Deployed(project, version, spiders, versions[-1])


async def _take_back(scrapyd: "Scrapyd", project: str, version: str) -> str:
    """Removes the version, and describes the result."""
    refusal: Exception
    try:
        await scrapyd.post("delversion", {"project": project, "version": version})
    except (_ErrorAnswer, ServiceError) as error:
        refusal = error
    else:
        return "and it was removed there"
    with contextlib.suppress(_ErrorAnswer, ServiceError):
        if version not in await scrapyd.versions(project):
            return "and did not keep it"
    return f"and it could not be removed ({refusal}): remove it by hand, or jobs will use it"


class _ErrorAnswer(Exception):
    """Raised when Scrapyd answers with the status `error`. Its text is Scrapyd's message."""


class Scrapyd:
    """The calls of Scrapyd's API that a deploy needs. Use it in `async with`."""

    def __init__(self, url: URL, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = headers

    @classmethod
    def of(cls, config: Config, url: str) -> Self:
        """Returns a client for this address with the configured login. Raises UsageError."""
        try:
            address = URL(url)
        except ValueError:
            address = URL()
        if address.scheme not in ("http", "https") or not address.host:
            raise UsageError(f"--url: {url!r} is not an http:// or https:// address.")
        if address.user or address.password:
            raise UsageError("--url: set HARVESTER_SCRAPYD_USER and HARVESTER_SCRAPYD_PASSWORD; no login in addresses.")
        if not config.scrapyd_user or not config.scrapyd_password:
            return cls(address, {})
        login = f"{config.scrapyd_user}:{config.scrapyd_password.get_secret_value()}"
        return cls(address, {"Authorization": f"Basic {b64encode(login.encode()).decode()}"})

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers=self._headers, timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def versions(self, project: str) -> list[str]:
        """Returns the project's versions in Scrapyd's order; empty for an unknown project."""
        return await self.get("listversions", {"project": project}, "versions")

    async def spiders(self, project: str, version: str) -> list[str]:
        """Returns the spiders in the version, at least one. Raises _ErrorAnswer."""
        spiders = await self.get("listspiders", {"project": project, "_version": version}, "spiders")
        if not spiders:
            raise _ErrorAnswer("there is no spider in it")
        return sorted(spiders)

    async def get(self, call: str, parameters: Mapping[str, str], name: str) -> list[str]:
        """Returns the list with this name in the response. Raises ServiceError or _ErrorAnswer."""
        found = (await self._ask("GET", call, params=parameters)).get(name)
        if not isinstance(found, list):
            raise self._is_none(call, f"without {name}")
        return list(map(str, found))

    async def post(self, call: str, fields: Mapping[str, str], egg: bytes | None = None) -> dict[str, Any]:
        """Posts a form, optionally with an egg, and returns the response. Raises ServiceError or _ErrorAnswer."""
        form = aiohttp.FormData(dict(fields))
        if egg is not None:
            form.add_field("egg", BytesIO(egg), filename="project.egg", content_type="application/octet-stream")
        return await self._ask("POST", call, data=form)

    async def _ask(self, method: str, call: str, **wishes: Any) -> dict[str, Any]:
        address = self._url.with_path(f"{self._url.path.rstrip('/')}/{call}.json")
        try:
            async with self._session.request(method, address, allow_redirects=False, **wishes) as response:
                status, body = response.status, await response.text(errors="replace")
        except TimeoutError:
            raise ServiceError(f"Scrapyd at {self._url} did not answer {call} in {ANSWER_SECONDS} s.") from None
        except (aiohttp.ClientError, OSError) as error:
            said = describe_fault(error)
            raise ServiceError(f"Scrapyd at {self._url} cannot be reached: {said}. Does it run? See --url.") from None
        if status in (401, 403):
            raise ServiceError(
                f"Scrapyd at {self._url} refuses the login (HTTP {status}): check HARVESTER_SCRAPYD_USER and"
                " HARVESTER_SCRAPYD_PASSWORD against its configuration."
            )
        try:
            answer: dict[str, Any] = json.loads(body)
            said = answer["status"]
        except (ValueError, KeyError, TypeError):
            raise self._is_none(call, f"with HTTP {status}") from None
        if said != "ok":
            raise _ErrorAnswer(str(answer.get("message", body)).strip()[-LONGEST_ANSWER:])
        return answer

    def _is_none(self, call: str, how: str) -> ServiceError:
        return ServiceError(f"{self._url} is no Scrapyd: it answered {call} {how}. See --url.")
