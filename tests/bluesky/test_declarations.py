"""Nobody is harvested who could not be asked, and nobody's words stay anywhere before the answer is there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harvester.items.bluesky import Embed, Quote
from harvester.sandbox.network import special
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.authors import authors_of
from harvester.stores.staging import SUFFIX, read_segment
from tests.bluesky.conftest import Records
from tests.bluesky.test_opt_outs import REASONS
from tests.crash.harvest import Harvest, fates
from tests.pipelines.records import post
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
REFUSING, SILENT = "intents_refuse", 20
NO_ROBOTS = "User-agent: *\nDisallow: /xrpc/com.atproto.repo.getRecord\nAllow: /"


def texts_of(site: Sandbox, account: str | int) -> tuple[str, str]:
    """What an account says of itself, and the mark with which it ends its posts."""
    index = account if isinstance(account, int) else special()[account]
    description = site.records.profiles.description(index)
    assert description
    return json.dumps(description, ensure_ascii=False)[1:-1], f"[{index}/"


def logs_of_redis(folder: Path) -> bytes:
    """All that the private Redis of a harvest has written down."""
    files = [path for path in (folder / ".harvester" / "valkey").rglob("*") if path.is_file()]
    assert any("aof" in path.name for path in files)
    return b"".join(path.read_bytes() for path in files)


def test_no_word_of_an_account_is_ever_in_the_log_of_redis(harvest: Make, site: Sandbox) -> None:
    """It keeps what was once written, whatever becomes of it: so of those who refuse nothing may be written."""
    dids = [site.did(REFUSING), site.did(SILENT)]
    command = harvest(seeds=",".join(dids), depth="0", collect="profiles,posts,threads")
    del command.environment["HARVESTER_REDIS_URL"]  # a private one writes its log below the command's folder
    assert command.run() == 0, command.said
    written = logs_of_redis(command.folder)
    for account in (REFUSING, SILENT):
        for text in texts_of(site, account):
            assert text.encode() not in written, account


@pytest.mark.parametrize("history", ["appview", pytest.param("records", marks=pytest.mark.slow)])
def test_an_account_whose_server_s_robots_txt_keeps_its_declaration_is_left_out_unless_that_is_wanted(
    history: str, harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    site.fault("replace", "^/robots.txt", old="Allow: /", new=NO_ROBOTS)
    did = site.did(SILENT)
    asked_for = {"seeds": did, "depth": "0", "collect": "profiles,posts", "history": history}
    command = harvest(**asked_for)
    assert command.run() in (0, 6), command.said
    state, reason = fates(mongodb)["account"][did]
    assert (state, reason.partition(":")[0]) == ("skipped", "declaration unknown")
    assert not mongodb.posts.count_documents({})
    assert not mongodb.profiles.count_documents({})

    wanted = harvest(**asked_for, harvest_unknown="yes")
    assert wanted.run() in (0, 6), wanted.said  # the monitors tell of the refusal
    assert mongodb.posts.count_documents({"did": did})
    assert mongodb.profiles.count_documents({"_id": did, "opt_outs": {"$exists": False}})


@pytest.mark.parametrize("match", ["^/did:plc:", pytest.param("getRecord", marks=pytest.mark.slow)])
def test_an_account_whose_server_cannot_be_reached_is_asked_again_later(
    match: str, harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    failing = site.fault("server_error", match)
    did = site.did(SILENT)
    fast = {"HARVESTER_DEFERRED_SECONDS": "0", "SCRAPY_SETTINGS_MODULE": "tests.bluesky.impatient"}
    command = harvest(fast, seeds=did, depth="0", collect="profiles,posts")
    assert command.run() == 7, command.said
    assert fates(mongodb)["account"][did][0] == "waiting"
    assert not mongodb.profiles.count_documents({})
    site.clear_faults(failing)
    assert command.run() == 0, command.said
    assert fates(mongodb)["account"] == {did: ("posts_collected", "")}


@pytest.mark.slow
def test_words_of_those_who_refuse_and_are_beyond_max_accounts_go_from_threads_and_quotes(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    did, (_, mark) = site.did(REFUSING), texts_of(site, REFUSING)
    everybody = [site.did(n) for n in range(site.accounts) if not site.network.hidden(n) and site.did(n) != did]
    asked_for = {"seeds": ",".join(everybody), "depth": "1", "collect": "profiles,posts,threads"}
    command = harvest(**asked_for, max_accounts=str(len(everybody)), ask_authors="no")
    assert command.run() in (0, 6), command.said
    assert [row for row in mongodb.posts.find() if mark in str(row)], "else this test shows nothing"

    command = harvest(**asked_for, max_accounts=str(len(everybody)))
    assert command.run() in (0, 6), command.said
    assert fates(mongodb)["account"].keys() == {*everybody}
    author = mongodb.job_items.find_one({"kind": "author", "key": did})
    assert author
    assert (author["state"], author["reason"]) == ("skipped", REASONS["intents_refuse"])
    assert not [row for row in mongodb.posts.find() if mark in str(row)]
    lines = [line for path in command.folder.rglob(f"*{SUFFIX}") for line in read_segment(path)]
    assert lines
    assert not [line for line in lines if mark in str(json.loads(line)["raw"])]


def test_authors_are_those_of_replies_and_of_quotes_at_any_depth() -> None:
    inner = Quote("at://did:plc:c/x/1", "post", did="did:plc:c", text="hi")
    outer = Quote(
        "at://did:plc:b/x/1", "post", did="did:plc:b", handle="b.example", text="hi", embed=Embed(quote=inner)
    )
    bare = Quote("at://did:plc:d/x/1", "not_found", did="did:plc:d")
    records = [
        post("did:plc:a", handle="h.example", embed=Embed(quote=outer)),
        post("did:plc:own", embed=Embed(quote=bare)),
    ]
    found = {each.key: each.input for each in authors_of(BlueskyArguments(), records, but="did:plc:own")}
    assert {each.recheck for each in authors_of(BlueskyArguments(), records)} == {"every 30d"}
    assert found == {"did:plc:a": {"handle": "h.example"}, "did:plc:b": {"handle": "b.example"}, "did:plc:c": {}}
    assert not list(authors_of(BlueskyArguments(honour_opt_outs="no"), records))
    assert not list(authors_of(BlueskyArguments(ask_authors="no"), records))


def test_other_wishes_are_other_jobs_and_the_usual_ones_go_on_with_those_of_earlier_versions() -> None:
    def scope(**given: str) -> str:
        return json.dumps(BlueskyArguments(**given).identity(), sort_keys=True)

    usual = BlueskyArguments().identity()
    assert not {"harvest_unknown", "ask_authors", "leave_authors"} & usual.keys()
    assert len({scope(), scope(harvest_unknown="yes"), scope(ask_authors="no")}) == 3
