"""What a project's middleware at 543, its callbacks and its errbacks are given is what plain Scrapy gives them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.answers.project import Saw, run
from tests.crawling import Answer, Site
from tests.ports import free_port

PAGE = Answer(body=b"<html>a page</html>", kind="text/html")
GZIP = {"Content-Encoding": "gzip"}
ANSWERS = {
    "/page": [PAGE],
    "/missing": [Answer(404, b"")],
    "/gone": [Answer(410, b"")],
    "/forbidden": [Answer(403, b"no")],
    "/broken": [Answer(500, b"")],
    "/upstream": [Answer(502, b"")],
    "/recovers": [Answer(500, b""), PAGE],
    "/teapot": [Answer(418, b"")],
    "/captcha": [Answer(body=b"<html>captcha</html>", kind="text/html"), PAGE],
    "/captcha-always": [Answer(body=b"<html>captcha</html>", kind="text/html")],
    "/solved": [Answer(403, b"no")],
    "/relabelled": [PAGE],
    "/ignored": [PAGE],
    "/breaks": [PAGE],
    "/inline": [PAGE],
    "/nowhere": [Answer(301, b"")],
    "/loop": [Answer(302, b"", {"Location": "/loop?1"})],
    "/loop?1": [Answer(302, b"", {"Location": "/loop?2"})],
    "/loop?2": [Answer(302, b"", {"Location": "/loop?3"})],
    "/hangs-up": [Answer(silent=True)],
    "/fallback": [Answer(silent=True)],
    "/once-more": [Answer(silent=True)],
    "/cut-short": [Answer(missing=100)],
    "/no-gzip": [Answer(headers=GZIP)],
    "/late": [],
}
ASKED: Mapping[str, Mapping[str, Any]] = {
    "/broken?wanted": {"handle_httpstatus_list": [500]},
    "/missing?wanted": {"handle_httpstatus_list": [404]},
    "/forbidden?wanted": {"handle_httpstatus_all": True},
    "/broken?once": {"dont_retry": True},
    "/broken?thrice": {"max_retry_times": 3},
    "/hangs-up?never": {"max_retry_times": 0},
}
"""Further addresses -> the meta with which they are asked for."""
COUNTED = ("retry/", "httperror/", "response_received", "downloader/exception", "downloader/response_status_count")
"""How stats begin that are the same, too."""

QUICK = {"REDIRECT_MAX_TIMES": 2, "ROBOTSTXT_OBEY": False}
LATE = {"DOWNLOAD_TIMEOUT": 1, "RETRY_TIMES": 1, **QUICK}
RETRYING = {"RETRY_TIMES": 1, "RETRY_HTTP_CODES": [500, 418], "HTTPERROR_ALLOWED_CODES": [410], **QUICK}
ONCE = {"RETRY_ENABLED": False, "HTTPERROR_ALLOW_ALL": True, **QUICK}
SOME = {"RETRY_EXCEPTIONS": ["scrapy.exceptions.DownloadFailedError"], **QUICK}
NOTHING = {"ROBOTSTXT_OBEY": True}


class SlowSite(Site):
    """Answers as its paths say, without what follows a question mark, and `/late` when the test is over."""

    async def answer(self, path: str, number: int) -> Answer:
        if path == "/late":
            await self.over.wait()
        answers = self.answers.get(path) or self.answers.get(path.partition("?")[0]) or [PAGE]
        return answers[min(number, len(answers) - 1)]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        self.over = asyncio.Event()
        async with self:
            yield self.url
            self.over.set()


class Pair(NamedTuple):
    plain: Saw
    ours: Saw


async def _pair(folder: Path, settings: Mapping[str, Any], hosts: list[str], paths: list[str]) -> Pair:
    saw = []
    for kind in ("plain", "ours"):
        async with SlowSite(ANSWERS).open() as url:
            asks = [{"url": url + path, "meta": ASKED.get(path, {})} for path in paths]
            asks += [{"url": f"http://{host}/"} for host in hosts]
            saw.append(await run(kind, folder, asks, dict(settings)))
    return Pair(*saw)


@pytest.fixture(scope="module")
def hosts() -> list[str]:
    """Three names that nobody has, of unrelated domains, and a closed port."""
    names = [f"{uuid4().hex}.invalid" for _ in range(3)]
    return [*names, f"127.0.0.1:{free_port()}"]


@pytest.fixture(scope="module")
def pairs(redis_url: str, hosts: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    folder = tmp_path_factory.mktemp("answers")
    paths = [path for path in ANSWERS if path not in ("/loop?1", "/loop?2", "/no-gzip", "/late")] + list(ASKED)

    async def crawl() -> dict[str, Pair]:
        return {
            "retrying": await _pair(folder, RETRYING, hosts, paths),
            "once": await _pair(folder, ONCE, [], [*paths, "/no-gzip"]),
            "some": await _pair(folder, SOME, hosts, ["/hangs-up", "/cut-short", "/page"]),
            "late": await _pair(folder, LATE, [], ["/late"]),
            "nothing": await _pair(folder, NOTHING, hosts, ["/page"]),
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDIS_URL", redis_url)
        patch.setenv("HARVESTER_STATE_DIR", str(folder / "state"))
        patch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
        return asyncio.run(crawl())


@pytest.mark.parametrize("name", ["retrying", "once", "some", "late"])
def test_a_project_sees_each_answer_and_each_exception_as_in_scrapy(name: str, pairs: dict[str, Pair]) -> None:
    assert pairs[name].ours.events == pairs[name].plain.events, pairs[name].ours.log


@pytest.mark.parametrize("name", ["retrying", "once", "some", "late"])
def test_the_counts_of_a_project_are_those_of_scrapy(name: str, pairs: dict[str, Pair]) -> None:
    plain, ours = ({key: value for key, value in saw.stats.items() if key.startswith(COUNTED)} for saw in pairs[name])
    assert ours == plain


def test_errbacks_hear_of_hosts_that_cannot_be_reached_when_nothing_is_set(
    hosts: list[str], pairs: dict[str, Pair]
) -> None:
    plain, ours = pairs["nothing"]
    for host in hosts:
        name, _, number = host.partition(":")
        ends = [[event[:2] for event in saw.events[host] if event[0] == "errback"] for saw in (plain, ours)]
        assert ends[0] == ends[1]
        expected = "DownloadConnectionRefusedError" if number else "CannotResolveHostError"
        assert ends[1] == [["errback", expected]], name
    assert ours.stats["finish_reason"] == "finished"


def test_what_an_errback_gets_names_the_verdict(pairs: dict[str, Pair]) -> None:
    verdicts = pairs["retrying"].ours.verdicts | pairs["late"].ours.verdicts
    outcomes = {path: verdicts[path] for path in ("/missing", "/forbidden", "/broken", "/hangs-up", "/late", "/loop")}
    assert outcomes == {
        "/missing": "not_found",
        "/forbidden": "blocked",
        "/broken": "server_error",
        "/hangs-up": "network",
        "/late": "timeout",
        "/loop": "invalid",
    }


async def test_a_run_that_ends_asks_nobody_about_what_it_gives_back(
    own_redis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", own_redis)
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "state"))
    async with SlowSite(ANSWERS).open() as url:
        paths = [f"/page?{number}" for number in range(9)]
        asks = [{"url": url + path} for path in paths]
        slowly = {"ROBOTSTXT_OBEY": False, "DOWNLOAD_DELAY": 60, "ENOUGH": asks[0]["url"]}
        ended = await run("ours", tmp_path, asks, slowly)
        fine: list[list[Any]] = [["response", 200], ["callback", 200, 0]]
        assert (ended.stats["finish_reason"], ended.events) == ("enough", {paths[0]: fine})
        continued = await run("ours", tmp_path, asks, {"ROBOTSTXT_OBEY": False})
    assert continued.events == dict.fromkeys(paths, fine)
