"""What an account declared about being collected is honoured by default, everywhere, and counted."""

import json
import re
from collections.abc import Callable

import pytest

from harvester.parsers.bluesky.scrub import scrub
from harvester.sandbox.network import special
from harvester.stores.staging import SUFFIX, read_segment
from tests.bluesky.conftest import Harvested, Records
from tests.crash.harvest import Harvest, fates
from tests.pipelines.records import KINDS
from tests.sandbox.process import Sandbox

By = Callable[[str], Harvested]
Make = Callable[..., Harvest]
REASONS = {"private": "opt_out: !no-unauthenticated", "intents_refuse": "opt_out: intent bulkDataset"}


@pytest.mark.parametrize("history", ["appview", pytest.param("car", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", REASONS)
def test_of_an_account_that_opted_out_a_stub_stays_which_says_so(
    kind: str, history: str, harvested: By, site: Sandbox
) -> None:
    database, did = harvested(history).database, site.did(kind)
    assert fates(database)["account"][did] == ("skipped", REASONS[kind])
    profile = database.profiles.find_one({"_id": did})
    assert profile
    assert profile.keys() - {"intents"} == {"_id", "did", "handle", "opt_outs", "provenance"}
    assert profile["opt_outs"] == [REASONS[kind].removeprefix("opt_out: ")]
    stored = {one.COLLECTION for one in KINDS if database[one.COLLECTION].count_documents({"did": did})}
    assert stored == {"profiles", "follows"}, "edges are of both their ends"


def test_an_account_that_allows_it_is_collected_and_its_declaration_kept(harvested: By, site: Sandbox) -> None:
    profile = harvested("appview").database.profiles.find_one({"_id": site.did("intents_allow")})
    assert profile
    assert profile["intents"] == {"bulkDataset": True}
    assert profile["posts_count"] == harvested("appview").database.posts.count_documents({"did": profile["_id"]}) > 0


@pytest.mark.parametrize("history", ["appview", pytest.param("car", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", REASONS)
def test_nothing_that_an_account_wrote_is_anywhere_when_it_opted_out(
    kind: str, history: str, harvested: By, site: Sandbox
) -> None:
    """Posts of the sandbox end with the numbers of their authors in brackets, also where others quote them."""
    done, did, mark = harvested(history), site.did(kind), f"[{special()[kind]}/"
    for name in done.database.list_collection_names():
        assert not [row for row in done.database[name].find() if mark in str(row)], name
    lines = [json.loads(line) for path in done.data.rglob(f"*{SUFFIX}") for line in read_segment(path)]
    assert any(f"[{special()['hub']}/" in str(line) for line in lines)
    for line in lines:
        assert mark not in str(line["raw"])
        assert not scrub(line["raw"], did)[1], f"{line['kind']} {line['key']} shows the account"


def test_quotes_of_an_account_that_opted_out_say_that_it_did(harvested: By, site: Sandbox) -> None:
    posts = harvested("appview").database.posts
    for kind in REASONS:
        quotes = [row["embed"]["quote"] for row in posts.find({"embed.quote.did": site.did(kind)})]
        assert all(quote.keys() == {"uri", "did", "kind"} and quote["kind"] == "opted_out" for quote in quotes)


def test_what_was_left_out_is_counted(harvested: By) -> None:
    said = " ".join(harvested("appview").said.split())
    assert re.search(r"\bskipped 2: 1 [^,]*!no-unauthenticated, 1 [^,]*bulkDataset", said)
    assert "2 profiles " in said


@pytest.mark.parametrize("asked", ["getRecord", pytest.param("^/did:plc:", marks=pytest.mark.slow)])
def test_an_account_whose_server_refuses_to_say_what_it_declares_waits_for_the_answer(
    asked: str, harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    did = site.did("intents_refuse")
    refusing = site.fault("html_403", asked)
    command = harvest({"HARVESTER_DEFERRED_SECONDS": "0"}, seeds=did, depth="0", collect="profiles,posts")
    assert command.run() == 7, command.said
    assert fates(mongodb)["account"] == {did: ("waiting", "HTTP 403")}
    assert not mongodb.posts.count_documents({})
    site.clear_faults(refusing)
    assert command.run() == 0, command.said
    assert fates(mongodb)["account"] == {did: ("skipped", REASONS["intents_refuse"])}
    assert not mongodb.posts.count_documents({})


def test_opt_outs_are_collected_when_they_are_not_to_be_honoured(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    seeds = ",".join(map(site.did, REASONS))
    command = harvest(seeds=seeds, depth="0", collect="profiles,posts", honour_opt_outs="no")
    assert command.run() == 0, command.said
    assert set(fates(mongodb)["account"].values()) == {("posts_collected", "")}
    truth = site.truth_of(honour_opt_outs=False, seeds=map(special().__getitem__, REASONS), hops=0)
    assert {row["_id"] for row in mongodb.posts.find()} == truth.posts.keys()
    private = mongodb.profiles.find_one({"_id": site.did("private")})
    assert private
    assert private["opt_outs"] == ["!no-unauthenticated"], "it is recorded nevertheless"
    assert private["followers_count"] > 0
