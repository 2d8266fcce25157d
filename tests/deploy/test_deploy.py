"""`harvester deploy` ends well only when Scrapyd can run what was deployed, and leaves nothing else there."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import DeployError, ServiceError, UsageError
from harvester.worker.egg import build_egg
from harvester.worker.scrapyd import deploy
from tests.deploy.conftest import run_deploy
from tests.deploy.scrapyd import PASSWORD, USER, Scrapyd
from tests.forking import Ran
from tests.root import ROOT

LOGIN = Config(scrapyd_user=USER, scrapyd_password=SecretStr(PASSWORD))


def versions(scrapyd: Scrapyd) -> list[str]:
    found: list[str] = scrapyd.get("listversions", project="harvester")["versions"]
    return found


def test_the_deployed_version_lists_its_spiders(scrapyd: Scrapyd, first_deploy: Ran) -> None:
    newest = versions(scrapyd)[-1]
    assert f"Deployed harvester {newest} " in first_deploy.stdout
    assert "bluesky" in first_deploy.stdout
    assert "bluesky" in scrapyd.get("listspiders", project="harvester", _version=newest)["spiders"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        pytest.param(
            *("spiders/broken.py", "import a_package_that_is_not_there\n", "a_package_that_is_not_there"),
            id="missing package",
        ),
        pytest.param(
            *("settings.py", "raise RuntimeError('these settings are broken')\n", "these settings are broken"),
            id="broken settings",
            marks=pytest.mark.soak,
        ),
    ],
)
async def test_a_version_that_does_not_run_is_removed_and_scrapyds_words_are_shown(
    scrapyd: Scrapyd, copy_of_checkout: Callable[[], Path], file: str, text: str, said: str
) -> None:
    before = versions(scrapyd)
    root = copy_of_checkout()
    (root / "harvester" / file).write_text(text)
    with pytest.raises(DeployError, match=said) as refused:
        await deploy(LOGIN, scrapyd.url, "harvester", "broken", build_egg(root, "harvester.settings"))
    assert "removed" in str(refused.value)
    assert versions(scrapyd) == before


async def test_an_egg_without_spiders_and_what_is_no_egg_are_removed(scrapyd: Scrapyd) -> None:
    before = versions(scrapyd)
    with pytest.raises(DeployError, match="not a ZIP file"):
        await deploy(LOGIN, scrapyd.url, "harvester", "none", b"nothing")
    with pytest.raises(DeployError):
        await deploy(LOGIN, scrapyd.url, "other", "empty", b"PK\x05\x06" + bytes(18))
    assert versions(scrapyd) == before
    assert scrapyd.get("listprojects")["projects"] == ["harvester"]


async def test_a_version_that_is_there_already_is_refused_and_stays(scrapyd: Scrapyd) -> None:
    before = versions(scrapyd)
    with pytest.raises(UsageError, match="deployed already"):
        await deploy(LOGIN, scrapyd.url, "harvester", before[-1], b"nothing")
    assert versions(scrapyd) == before


@pytest.mark.slow
def test_it_is_said_when_jobs_would_use_another_version(scrapyd: Scrapyd) -> None:
    answer = run_deploy(scrapyd, ROOT, "--version", "1")
    assert answer.returncode == 0, answer.stderr
    assert f"still use {versions(scrapyd)[-1]}" in answer.stdout
    scrapyd.post("delversion", project="harvester", version="1")


async def test_a_wrong_password_is_named_and_not_shown(scrapyd: Scrapyd) -> None:
    before = versions(scrapyd)
    wrong = Config(scrapyd_user=USER, scrapyd_password=SecretStr("mellon"))
    with pytest.raises(ServiceError, match="HARVESTER_SCRAPYD_PASSWORD") as refused:
        await deploy(wrong, scrapyd.url, "harvester", "1", b"nothing")
    assert "mellon" not in str(refused.value)
    assert versions(scrapyd) == before


@pytest.mark.parametrize("said", ["hello", '{"status": "ok"}', '{"status": "ok", "versions": 1}'])
async def test_what_is_no_scrapyd_is_told_apart(said: str, free_port: int) -> None:
    with pytest.raises(ServiceError, match=f":{free_port} "):
        await deploy(Config(), f"http://127.0.0.1:{free_port}", "harvester", "1", b"")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\nConnection: close\r\n\r\n"
        writer.write(f"{head}{said}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", free_port):
        with pytest.raises(ServiceError, match="no Scrapyd"):
            await deploy(Config(), f"http://127.0.0.1:{free_port}", "harvester", "1", b"")


@pytest.mark.parametrize(
    ("url", "project", "version", "named"),
    [
        ("localhost", "harvester", "1", "--url"),
        ("http://me:sesame@127.0.0.1", "harvester", "1", "HARVESTER_SCRAPYD_PASSWORD"),
        ("http://127.0.0.1", "../harvester", "1", "--project"),
        ("http://127.0.0.1", "harvester", "1.0", "--version"),
    ],
)
async def test_names_that_cannot_be_used_are_refused(url: str, project: str, version: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        await deploy(Config(), url, project, version, b"")
