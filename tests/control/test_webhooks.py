"""Webhooks are told of each job that is paused or ends, once, signed, and never by way of a private network."""

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr
from pymongo import AsyncMongoClient
from pymongo.database import Database

from harvester.config import Config
from harvester.control import webhook_sender
from harvester.control.tokens import Scope
from harvester.control.webhook_sender import JobWebhookSender, sending
from harvester.control.webhooks import Webhooks, keys_of, secrets_of
from harvester.exceptions import StorageError, UnknownJob, UnknownWebhook, UsageError
from harvester.jobs.documents import Job
from harvester.jobs.ledger import Ledger
from harvester.jobs.service import JobService, job_service
from harvester.jobs.transitions import Ended
from tests.control.serving import Controller
from tests.crawling import Site
from tests.jobs.command import Answer, Jobs
from tests.jobs.conftest import SCOPE, nowhere, pages
from tests.numbers import numbers_of
from tests.publish.conftest import wait
from tests.publish.receiver import Receiver

Document = dict[str, Any]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_sender, "IDLE_S", 0.02)
    monkeypatch.setattr(webhook_sender, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(webhook_sender, "MOST_PAUSE_S", 0.1)


@pytest.fixture
async def jobs(config: Config) -> AsyncIterator[JobService]:
    async with job_service(config) as service:
        yield service


async def opened(jobs: JobService, spider: str = "flat", scope: str = SCOPE) -> Job:
    job = (await jobs.ledger.open_job(spider, scope)).job
    await jobs.ledger.add(job.id, pages("a", "b"), nowhere)
    return job


async def finish(jobs: JobService, job: Job) -> None:
    for item in await jobs.ledger.claim(job, 10, "worker"):
        counts = {"requests": 1, "records": 2, "rejected": 0}
        await jobs.ledger.apply([(item.id, Ended(item.attempts, "ok", "", counts))])
    assert await jobs.ledger.finish(job.id)


async def no_server(operation: Callable[[], Awaitable[Any]]) -> Any:
    raise AssertionError("a server is asked")


def waiting(mongodb: Database[Document]) -> list[Document]:
    return list(mongodb["webhook_deliveries"].find())


def told(receiver: Receiver) -> list[tuple[str, str]]:
    return [(event["type"].removeprefix("harvester.job."), event["subject"]) for event in receiver.events]


@pytest.fixture
def harvester(
    mongodb_uri: str,
    mongodb: Database[Document],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Answer]:
    """Runs any command in this process."""
    variables = {
        "HARVESTER_MONGODB_URI": mongodb_uri,
        "HARVESTER_DATABASE": mongodb.name,
        "HARVESTER_DATA_DIR": str(tmp_path / "data"),
        "HARVESTER_STATE_DIR": str(tmp_path / "state"),
        "COLUMNS": "200",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Jobs(tmp_path, variables, monkeypatch, capsys).harvester


# Telling ---------------------------------------------------------------------------------------------------


async def test_a_job_that_is_paused_finished_or_cancelled_is_told_once_and_signed(
    jobs: JobService, mongodb: Database[Document]
) -> None:
    async with Receiver() as receiver, sending(jobs):
        receiver.secret = (await Webhooks(jobs).add(receiver.url)).secret
        first, second = await opened(jobs), await opened(jobs, scope=SCOPE[::-1])
        await jobs.pause(first.id, "the office is closed")
        await wait(lambda: len(receiver.events) == 1)
        await jobs.resume(first.id)
        await finish(jobs, first)
        await wait(lambda: len(receiver.events) == 2)
        await jobs.cancel(second.id)
        await wait(lambda: len(receiver.events) == 3 and not waiting(mongodb))
    assert told(receiver) == [("paused", first.id), ("finished", first.id), ("cancelled", second.id)]
    paused, finished, cancelled = (event["data"] for event in receiver.events)
    assert (paused["reason"], paused["states"], paused["ended_at"]) == ("the office is closed", {"waiting": 2}, None)
    assert (finished["spider"], finished["items"], finished["states"]) == ("flat", 2, {"done": 2})
    assert (finished["outcomes"], cancelled["states"]) == ({"ok": 2}, {"skipped": 2})
    assert {head["content-type"] for head in receiver.heads} == {"application/cloudevents+json"}
    assert len({event["id"] for event in receiver.events}) == 3


async def test_a_webhook_is_told_of_what_it_was_added_for(jobs: JobService, mongodb: Database[Document]) -> None:
    first, second = await opened(jobs), await opened(jobs, "deep")
    async with Receiver() as of_all, Receiver() as of_one, Receiver() as of_spider:
        webhooks = Webhooks(jobs)
        of_all.secret = (await webhooks.add(of_all.url)).secret
        of_one.secret = (await webhooks.add(of_one.url, job=first.id)).secret
        of_spider.secret = (await webhooks.add(of_spider.url, spider="deep")).secret
        assert len({of_all.secret, of_one.secret, of_spider.secret}) == 3
        async with sending(jobs):
            await jobs.pause(first.id)
            await jobs.pause(second.id)
            await wait(lambda: len(of_all.events) == 2 and not waiting(mongodb))
        assert (told(of_one), told(of_spider)) == ([("paused", first.id)], [("paused", second.id)])


async def test_a_job_s_own_webhook_is_told_though_it_is_added_after_the_end(
    jobs: JobService, mongodb: Database[Document]
) -> None:
    job = await opened(jobs)
    await jobs.pause(job.id)
    await jobs.resume(job.id)
    await finish(jobs, job)
    async with Receiver() as receiver, Receiver() as of_all:
        added = await Webhooks(jobs).add(receiver.url, job=job.id)
        of_all.secret = (await Webhooks(jobs).add(of_all.url)).secret
        receiver.secret = added.secret
        assert await Webhooks(jobs).add(receiver.url, job=job.id) == added, "the same again is the same"
        async with sending(jobs):
            await wait(lambda: not waiting(mongodb) and not mongodb["jobs"].count_documents({"untold": True}))
        assert told(receiver) == [("finished", job.id)]
        assert told(of_all) == [], "what ended before it was added is no news to it"


async def test_a_job_that_goes_on_before_anybody_was_told_is_told_when_it_stops_again(
    jobs: JobService, mongodb: Database[Document]
) -> None:
    job = await opened(jobs)
    async with Receiver() as receiver:
        receiver.secret = (await Webhooks(jobs).add(receiver.url)).secret
        await jobs.pause(job.id)
        await jobs.resume(job.id)
        assert await JobWebhookSender(jobs).distribute() == 1
        assert waiting(mongodb) == []
        await jobs.pause(job.id)
        async with sending(jobs):
            await wait(lambda: len(receiver.events) == 1 and not waiting(mongodb))


async def test_what_was_taken_by_a_sender_that_was_killed_is_sent_by_another(
    jobs: JobService, mongodb: Database[Document]
) -> None:
    job = await opened(jobs)
    async with Receiver() as receiver:
        receiver.secret = (await Webhooks(jobs).add(receiver.url)).secret
        await jobs.pause(job.id)
        await JobWebhookSender(jobs).distribute()
        until = datetime.now(UTC) + timedelta(seconds=0.3)
        mongodb["webhook_deliveries"].update_one({}, {"$set": {"due_at": until}})
        async with sending(jobs):
            await wait(lambda: not waiting(mongodb))
        assert datetime.now(UTC) >= until
    assert told(receiver) == [("paused", job.id)]


async def test_several_senders_tell_each_event_once(jobs: JobService, mongodb: Database[Document]) -> None:
    several = [await opened(jobs, scope=f"{number:016}") for number in range(6)]
    async with Receiver() as receiver, sending(jobs), sending(jobs):
        receiver.secret = (await Webhooks(jobs).add(receiver.url)).secret
        for job in several:
            await jobs.pause(job.id)
        await wait(lambda: len(receiver.events) == 6 and not waiting(mongodb))
    assert sorted(event["subject"] for event in receiver.events) == sorted(job.id for job in several)


# Failing ---------------------------------------------------------------------------------------------------


async def test_one_that_fails_is_tried_until_it_is_well_and_holds_up_no_other(
    jobs: JobService, mongodb: Database[Document]
) -> None:
    job = await opened(jobs)
    async with Receiver() as ill, Receiver() as well, sending(jobs) as sender:
        webhooks = Webhooks(jobs)
        added = await webhooks.add(ill.url)
        ill.secret, well.secret = added.secret, (await webhooks.add(well.url)).secret
        ill.answer = lambda event: web.Response(status=500)
        await jobs.pause(job.id)
        await wait(lambda: len(ill.heads) > 3 and len(well.events) == 1 and len(waiting(mongodb)) == 1)
        failing, other = sorted(await webhooks.all(), key=lambda each: each.id != added.webhook.id)
        assert (failing.state, "HTTP 500" in failing.said, failing.waiting) == ("failing", True, 1)
        assert (other.state, other.waiting, other.delivered) == ("sending", 0, 1)
        ill.answer = lambda event: web.Response()
        await wait(lambda: not waiting(mongodb))
        assert sender.delivered == 2
        assert [each.state for each in await webhooks.all()] == ["sending", "sending"]
    assert len({head["webhook-id"] for head in ill.heads}) == 1


@pytest.mark.parametrize("gone", [True, False])
async def test_one_that_fails_for_long_or_wants_no_more_is_set_aside_until_it_is_resumed(
    jobs: JobService, mongodb: Database[Document], gone: bool
) -> None:
    async with Receiver() as receiver, sending(jobs):
        webhooks = Webhooks(jobs)
        added = await webhooks.add(receiver.url)
        receiver.secret = added.secret
        receiver.answer = lambda event: web.Response(status=410 if gone else 500)
        if not gone:
            since = datetime.now(UTC) - timedelta(hours=76)
            mongodb["webhooks"].update_one({}, {"$set": {"failing_since": since}})
        first, second = await opened(jobs), await opened(jobs, "deep")
        await jobs.pause(first.id)
        await wait(lambda: mongodb["webhooks"].count_documents({"set_aside_at": {"$exists": True}}) == 1)
        await jobs.pause(second.id)
        await wait(lambda: len(waiting(mongodb)) == 2)
        asked = len(receiver.heads)
        [aside] = await webhooks.all()
        assert (aside.state, aside.waiting, aside.dead) == ("set aside", 2, 0)
        assert asked == 1
        receiver.answer = lambda event: web.Response()
        assert await webhooks.resume(added.webhook.id) == 2
        await wait(lambda: not waiting(mongodb))
    assert sorted(told(receiver)) == sorted([("paused", first.id), ("paused", second.id)])


async def test_an_event_that_is_refused_is_dead_after_three_days_and_holds_up_no_other(
    jobs: JobService, mongodb: Database[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_sender, "AGAIN_S", (0.02,))
    monkeypatch.setattr(webhook_sender, "GIVE_UP", timedelta(seconds=0.2))
    async with Receiver() as receiver, sending(jobs):
        webhooks = Webhooks(jobs)
        added = await webhooks.add(receiver.url)
        receiver.secret = added.secret
        first, second = await opened(jobs), await opened(jobs, "deep")
        receiver.answer = lambda event: web.Response(status=422 if event["subject"] == first.id else 200)
        await jobs.pause(first.id)
        await jobs.pause(second.id)
        await wait(lambda: mongodb["webhook_deliveries"].count_documents({"dead_at": {"$exists": True}}) == 1)
        await wait(lambda: mongodb["webhooks"].count_documents({"delivered": 1}) == 1)
        [known] = await webhooks.all()
        assert (known.state, known.dead, known.delivered) == ("sending", 1, 1)
        receiver.answer = lambda event: web.Response()
        assert await webhooks.resume(added.webhook.id) == 1
        await wait(lambda: not waiting(mongodb))


async def test_a_receiver_that_answered_meanwhile_has_not_failed_all_the_time(
    jobs: JobService, mongodb: Database[Document]
) -> None:
    async with Receiver() as receiver, sending(jobs):
        receiver.secret = (await Webhooks(jobs).add(receiver.url)).secret
        long_ago = {"failing_since": datetime.now(UTC) - timedelta(hours=76), "said": "it answered HTTP 503"}
        mongodb["webhooks"].update_one({}, {"$set": long_ago})
        receiver.answer = lambda event: web.Response(status=400)
        await jobs.pause((await opened(jobs)).id)
        await wait(lambda: mongodb["webhook_deliveries"].count_documents({"tries": 1}) == 1)
        await wait(lambda: mongodb["webhooks"].count_documents({"failing_since": {"$exists": False}}) == 1)
        [known] = await Webhooks(jobs).all()
        assert (known.state, known.said) == ("sending", "")


async def test_one_whose_address_is_refused_by_now_is_removed_and_resumed(jobs: JobService, config: Config) -> None:
    closed = JobService(config.model_copy(update={"allow_private_hosts": False}), jobs.database, jobs.ledger)
    added, webhooks = await Webhooks(jobs).add("http://127.0.0.1:9/hook"), Webhooks(closed)
    assert await webhooks.secret(added.webhook.id) == added.secret
    assert await webhooks.resume(added.webhook.id) == 0
    with pytest.raises(UsageError, match="address"):
        await webhooks.test(added.webhook.id)
    await webhooks.remove(added.webhook.id)
    assert await webhooks.all() == []


async def test_a_fault_of_the_program_ends_no_sender(
    jobs: JobService, mongodb: Database[Document], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhook_sender, "AWAY_S", 0.05)
    mongodb["jobs"].insert_one({"_id": "odd", "untold": True})
    async with Receiver() as receiver, sending(jobs):
        receiver.secret = (await Webhooks(jobs).add(receiver.url)).secret
        await wait(lambda: " fault " in caplog.text)
        mongodb["jobs"].delete_one({"_id": "odd"})
        await jobs.pause((await opened(jobs)).id)
        await wait(lambda: len(receiver.events) == 1)


async def test_one_that_is_removed_is_told_nothing_more(jobs: JobService, mongodb: Database[Document]) -> None:
    job = await opened(jobs)
    async with Receiver() as receiver:
        webhooks = Webhooks(jobs)
        added = await webhooks.add(receiver.url)
        await jobs.pause(job.id)
        await JobWebhookSender(jobs).distribute()
        assert len(waiting(mongodb)) == 1
        await webhooks.remove(added.webhook.id)
        assert waiting(mongodb) == []
        with pytest.raises(UnknownWebhook):
            await webhooks.resume(added.webhook.id)


async def test_a_test_says_whether_the_receiver_has_it(jobs: JobService) -> None:
    async with Receiver() as receiver:
        webhooks = Webhooks(jobs)
        added = await webhooks.add(receiver.url)
        assert "HTTP 401" in await webhooks.test(added.webhook.id), "it checks by another secret"
        receiver.secret = await webhooks.secret(added.webhook.id)
        assert await webhooks.test(added.webhook.id) == ""
        assert [event["type"] for event in receiver.events] == ["harvester.test"]


# Attacks ---------------------------------------------------------------------------------------------------

INWARD = [
    "https://127.0.0.1/hook",
    "https://localhost/hook",
    "https://LOCALHOST./hook",
    "https://[::1]/hook",
    "https://[::ffff:127.0.0.1]/hook",
    "https://[::ffff:10.0.0.1]/hook",
    "https://[64:ff9b::7f00:1]/hook",
    "https://[2002:7f00:1::]/hook",
    "https://2130706433/hook",
    "https://0x7f.1/hook",
    "https://0177.0.0.1/hook",
    "https://127.1/hook",
    "https://0/hook",
    "https://１２７.0.0.1/hook",
    "https://127。0。0。1/hook",
    "https://169.254.169.254/latest/meta-data/",
    "https://[fe80::1%25eth0]/hook",
    "https://10.1.2.3/hook",
    "https://100.64.0.1/hook",
    "https://printer.local/hook",
    "https://metadata.google.internal/hook",
    "https://mongodb:8443/hook",
    "http://hooks.example.org/hook",
    "https://hooks.example.org:27017/hook",
    "https://ann:secret@hooks.example.org/hook",
    "https://hooks.example.org@127.0.0.1/hook",
    "https://hooks.example.org\\@127.0.0.1/hook",
    "https://hooks.example.org/ho\r\nX-Injected: 1",
    "https://hooks.example.org:443:80/hook",
    "https://%31%32%37.0.0.1/hook",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "https:///hook",
    "hooks.example.org",
    "",
    "https://hooks.example.org/" + "x" * 9000,
]


@pytest.mark.parametrize("url", INWARD)
async def test_an_address_that_leads_inward_or_is_none_is_refused_before_a_server_is_asked(url: str) -> None:
    config = Config(allow_private_hosts=False)
    client = AsyncMongoClient[Document]("mongodb://127.0.0.1:1", connect=False)
    jobs = JobService(config, client["nowhere"], Ledger(client["nowhere"], no_server))
    with pytest.raises(UsageError):
        await Webhooks(jobs).add(url)


async def test_a_name_that_leads_inward_by_the_time_is_not_connected_to(
    jobs: JobService, config: Config, mongodb: Database[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was public when the webhook was added, also when it is so again and again."""
    system = socket.getaddrinfo
    asked: list[str] = []

    def rebound(host: Any, *arguments: Any, **more: Any) -> Any:
        if host != "hooks.example.org":
            return system(host, *arguments, **more)
        asked.append(host)
        return system("127.0.0.1", *arguments, **more)

    job = await opened(jobs)
    closed = JobService(config.model_copy(update={"allow_private_hosts": False}), jobs.database, jobs.ledger)
    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    await Webhooks(closed).add("https://hooks.example.org:8443/hook")
    async with sending(closed):
        await jobs.pause(job.id)
        await wait(lambda: mongodb["webhooks"].count_documents({"said": {"$exists": True}}) == 1)
    [known] = await Webhooks(closed).all()
    assert ("hooks.example.org" in known.said, "127.0.0.1" in known.said) == (True, True)
    assert len(asked) >= 1


async def test_an_address_in_mongodb_is_judged_again_before_it_is_asked(
    jobs: JobService, config: Config, mongodb: Database[Document]
) -> None:
    closed = JobService(config.model_copy(update={"allow_private_hosts": False}), jobs.database, jobs.ledger)
    job = await opened(jobs)
    async with Site() as inner:
        added = await Webhooks(jobs).add(inner.url)
        await jobs.pause(job.id)
        async with sending(closed):
            await wait(lambda: mongodb["webhooks"].count_documents({"said": {"$exists": True}}) == 1)
        with pytest.raises(UsageError, match="address"):
            await Webhooks(closed).test(added.webhook.id)
        assert inner.arrivals == []


async def test_a_redirect_is_not_followed(jobs: JobService, mongodb: Database[Document]) -> None:
    job = await opened(jobs)
    async with Site() as inner, Receiver() as receiver, sending(jobs):
        receiver.secret = (await Webhooks(jobs).add(receiver.url)).secret
        receiver.answer = lambda event: web.Response(status=307, headers={"Location": inner.url})
        await jobs.pause(job.id)
        await wait(lambda: mongodb["webhooks"].count_documents({"said": {"$exists": True}}) == 1)
        [known] = await Webhooks(jobs).all()
        assert "HTTP 307" in known.said
        assert inner.arrivals == []


async def test_an_unknown_job_has_no_webhooks(jobs: JobService) -> None:
    with pytest.raises(UnknownJob):
        await Webhooks(jobs).add("https://hooks.example.org/", job="nope")


async def test_a_webhook_of_a_job_and_another_spider_is_refused(jobs: JobService) -> None:
    job = await opened(jobs)
    with pytest.raises(UsageError, match=f"{job.id}.*flat.*deep"):
        await Webhooks(jobs).add("https://hooks.example.org/", job.id, "deep")
    assert (await Webhooks(jobs).add("https://hooks.example.org/", job.id, "flat")).webhook.job == job.id


# Secrets ---------------------------------------------------------------------------------------------------


async def test_mongodb_holds_nothing_that_signs(jobs: JobService, mongodb: Database[Document]) -> None:
    async with Receiver() as receiver:
        added = await Webhooks(jobs).add(receiver.url)
    key = (jobs.config.state_dir / "webhooks.key").read_text()
    text = str(list(mongodb["webhooks"].find()))
    assert key not in text
    assert added.secret not in text


def test_the_kept_key_is_for_its_owner_only_and_stays(config: Config) -> None:
    keys = keys_of(config)
    path = config.state_dir / "webhooks.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert keys_of(config) == keys
    path.chmod(0o644)
    with pytest.raises(StorageError, match=f"{path}.*chmod"):
        keys_of(config)


def test_a_key_that_is_no_text_is_named(config: Config) -> None:
    keys_of(config)
    path = config.state_dir / "webhooks.key"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(StorageError, match=str(path)):
        keys_of(config)


async def test_a_key_is_changed_without_losing_an_event(
    jobs: JobService, config: Config, mongodb: Database[Document]
) -> None:
    """Both sign for a while."""
    old, new = "o" * 32, "n" * 32

    def keyed(keys: str) -> JobService:
        return JobService(config.model_copy(update={"webhook_keys": SecretStr(keys)}), jobs.database, jobs.ledger)

    job = await opened(jobs)
    async with Receiver() as receiver:
        receiver.secret = (await Webhooks(keyed(old)).add(receiver.url)).secret
        async with sending(keyed(f"{new}\n{old}")):
            await jobs.pause(job.id)
            await wait(lambda: len(receiver.events) == 1)
        [known] = await Webhooks(jobs).all()
        receiver.secret = await Webhooks(keyed(f"{new} {old}")).secret(known.id)
        assert await Webhooks(keyed(new)).test(known.id) == ""
    with pytest.raises(UsageError, match="32"):
        keys_of(config.model_copy(update={"webhook_keys": SecretStr("short")}))
    assert len(secrets_of(known.id, [old.encode(), new.encode()])) == 2


# The command -----------------------------------------------------------------------------------------------


def test_webhooks_are_added_listed_and_removed_by_commands(
    harvester: Callable[..., Any], mongodb: Database[Document]
) -> None:
    added = harvester("webhooks", "add", "http://127.0.0.1:9/services/T0/xoxb-1234-secretword", "--json")
    assert added.code == 0, added.err
    assert added.json["secret"].startswith("whsec_")
    name = added.json["id"]
    listed = harvester("webhooks", "list")
    assert f"{name} " in listed.out
    assert "all jobs" in listed.out
    assert "xoxb-1234-secretword" not in listed.out
    assert harvester("webhooks", "secret", name).out == f"{added.json['secret']}\n"
    failed = harvester("webhooks", "test", name)
    assert failed.code == 7, failed.out
    resumed = harvester("webhooks", "resume", name)
    assert (resumed.code, name in resumed.out, numbers_of(resumed.out.replace(name, ""))) == (0, True, [0])
    removed = harvester("webhooks", "remove", name)
    assert (removed.code, name in removed.out) == (0, True)
    assert harvester("webhooks", "list", "--json").json == []
    refused = harvester("webhooks", "add", "https://x.example/", "--job", "a", "--spider", "b")
    assert (refused.code, "--job" in refused.err, "--spider" in refused.err) == (2, True, True)
    unknown = harvester("webhooks", "remove", name)
    assert (unknown.code, name in unknown.err) == (2, True)


# The API ---------------------------------------------------------------------------------------------------


async def test_the_api_adds_lists_tests_and_removes_webhooks_and_the_controller_sends(
    control: Controller, mongodb: Database[Document]
) -> None:
    job = await opened(control.context.jobs)
    operate, read = control.headers(Scope.OPERATE), control.headers(Scope.READ)
    async with Receiver() as receiver:
        refused = await control.http.post("/api/v1/webhooks", json={"url": receiver.url}, headers=read)
        assert refused.status_code == 403
        added = await control.http.post("/api/v1/webhooks", json={"url": receiver.url, "job": job.id}, headers=operate)
        assert added.status_code == 201
        receiver.secret, name = added.json()["secret"], added.json()["webhook"]["id"]
        tested = await control.http.post(f"/api/v1/webhooks/{name}/test", headers=operate)
        assert tested.json() == {"confirmed": True, "said": ""}
        await control.context.jobs.pause(job.id)
        await wait(lambda: len(receiver.events) == 2 and not waiting(mongodb))
        [listed] = (await control.get("/webhooks")).json()
        assert (listed["id"], listed["state"], listed["delivered"]) == (name, "sending", 1)
        resumed = await control.http.post(f"/api/v1/webhooks/{name}/resume", headers=operate)
        assert resumed.json() == {"waiting": 0}
        assert (await control.http.delete(f"/api/v1/webhooks/{name}", headers=operate)).status_code == 204
        assert (await control.http.delete(f"/api/v1/webhooks/{name}", headers=operate)).status_code == 404


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "https://[", "https://ann@hooks.example.org/", "\ud800", "x" * 9000]
)
async def test_the_api_refuses_an_address_with_a_sentence(control: Controller, url: str) -> None:
    body = json.dumps({"url": url})
    headers = control.headers() | {"Content-Type": "application/json"}
    answer = await control.http.post("/api/v1/webhooks", content=body, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:harvester:problem:invalid")
