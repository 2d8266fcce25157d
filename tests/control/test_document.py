"""The whole OpenAPI document against the controller: it answers as it says, and nobody without the scope."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx2
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import SecretStr
from pymongo import MongoClient
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from harvester.config import Config
from harvester.control.app import PREFIX, create_app
from harvester.control.context import ControllerContext
from harvester.control.tokens import Scope
from tests.ports import free_port

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = "listen"
"""Id of the operation whose answer has no end."""
EXAMPLES = 3
"""Of each operation; in the soak test as EXAMPLES says."""


class Served(NamedTuple):
    """A controller on loopback, in a thread of its own."""

    url: str
    tokens: dict[Scope, str]
    job: str
    """One that there is."""
    document: dict[str, Any]


@pytest.fixture(scope="module")
def served(mongodb_uri: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    name, folder = f"test-{uuid4().hex[:12]}", tmp_path_factory.mktemp("document")
    with pytest.MonkeyPatch.context() as patched, MongoClient[dict[str, Any]](mongodb_uri) as client:
        patched.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.cli_settings")
        thread = _Thread(_config(mongodb_uri, redis_url, name, folder))
        thread.start()
        try:
            thread.ready.wait(120)
            headers = {"Authorization": f"Bearer {thread.tokens[Scope.ADMIN]}", "Idempotency-Key": "first"}
            body = {"spider": "parcels", "arguments": {"county": "elm"}, "items": ["1", "2"]}
            made = httpx2.post(f"{thread.url}{PREFIX}/jobs", json=body, headers=headers, timeout=60)
            for token in thread.tokens.values():  # they are heard from now on, though others guess
                known = {"Authorization": f"Bearer {token}"}
                assert httpx2.get(f"{thread.url}{PREFIX}/jobs", headers=known, timeout=60).status_code == 200
            document = httpx2.get(f"{thread.url}{PREFIX}/openapi.json", headers=headers, timeout=60).json()
            yield Served(thread.url, thread.tokens, made.json()["job"], document)
        finally:
            thread.server.should_exit = True
            thread.join(60)
            client.drop_database(name)


def _config(mongodb_uri: str, redis_url: str, name: str, folder: Path) -> Config:
    return Config(
        mongodb_uri=SecretStr(mongodb_uri),
        redis_url=SecretStr(redis_url),
        database=name,
        state_dir=folder / "state",
        data_dir=folder / "data",
    )


class _Thread(threading.Thread):
    def __init__(self, config: Config) -> None:
        super().__init__(daemon=True)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.ready = threading.Event()
        self.tokens: dict[Scope, str] = {}
        self._app = create_app(config)
        self.server = uvicorn.Server(
            uvicorn.Config(self._app, "127.0.0.1", port, log_level="error", timeout_graceful_shutdown=1)
        )

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        serving = asyncio.create_task(self.server.serve())
        while not self.server.started:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0.01)
        context: ControllerContext = self._app.state.context
        self.tokens.update({scope: (await context.tokens.add(f"a {scope}er", scope))[1] for scope in Scope})
        self.ready.set()
        await serving


def check(served: Served, scope: Scope | None, examples: int) -> None:
    """Each operation with so many made-up requests, of which every second is of a job that there is."""
    schema = schemathesis.openapi.from_dict(served.document)
    headers = {"Authorization": f"Bearer {served.tokens[scope]}"} if scope else {}
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.definition.raw["operationId"] == ENDLESS:
            continue
        number = 0

        @settings(
            max_examples=examples,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal number
            number += 1
            if "job" in case.path_parameters and number % 2:
                case.path_parameters["job"] = served.job
            if "timeout_s" in (case.query or {}):
                case.query["timeout_s"] = 0
            answer = case.call(base_url=served.url, headers=headers, timeout=60)
            case.validate_response(answer, checks=CHECKS)
            if scope is None and case.operation.path.startswith(PREFIX):
                assert answer.status_code in (401, 429), answer.text

        ask()


@pytest.mark.soak
def test_each_operation_answers_as_the_document_says(served: Served) -> None:
    check(served, Scope.ADMIN, EXAMPLES)


def test_nothing_is_answered_without_a_token(served: Served) -> None:
    check(served, None, 2)


@pytest.mark.soak
@pytest.mark.parametrize("scope", [None, *Scope])
def test_each_operation_answers_as_the_document_says_to_each_scope(served: Served, scope: Scope | None) -> None:
    check(served, scope, int(os.environ.get("EXAMPLES", "200")))


def test_each_operation_needs_the_scope_that_its_word_says(served: Served) -> None:
    """With any body: who may not do it is told so before it is read whether it could be done."""
    needed: dict[str, Scope] = {}
    asked = [
        (method, path, operation["operationId"])
        for path, methods in served.document["paths"].items()
        for method, operation in methods.items()
        if path.startswith(PREFIX) and operation["operationId"] != ENDLESS
    ]
    with httpx2.Client(base_url=served.url, timeout=60) as http:
        for method, path, operation in asked:
            codes = []
            for scope in Scope:
                headers = {"Authorization": f"Bearer {served.tokens[scope]}"}
                codes.append(http.request(method.upper(), path.replace("{job}", "none"), headers=headers).status_code)
            refused = codes.count(403)
            assert codes[:refused] == [403] * refused, (method, path, codes)
            needed[operation] = list(Scope)[refused]
            assert method == "get" or refused, f"{path} changes something for whoever may only look"
    assert needed["list_jobs"] is Scope.READ
    assert needed["submit_job"] is Scope.OPERATE
    assert needed["list_audit"] is Scope.ADMIN
