"""What an account declares counts also for what was kept of it before: by an earlier run, or by one that was killed."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harvester.sandbox.network import special
from harvester.stores.objects import on_disk
from harvester.stores.staging import OPEN, SUFFIX, read_segment
from tests.bluesky.conftest import Records
from tests.bluesky.test_opt_outs import REASONS
from tests.crash.harvest import Harvest, fates
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
KINDS = ("private", "intents_refuse")
QUOTING = 47
"""An account that quotes the one whose declared intents refuse."""
LABEL = '"val":"!no-unauthenticated"'


def mark(account: str | int) -> str:
    """With which the sandbox ends the posts of an account, also where others quote them."""
    return f"[{account if isinstance(account, int) else special()[account]}/"


def staged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.rglob(f"*{SUFFIX}") for line in read_segment(path)]


def words_of(account: str | int, folder: Path) -> list[dict[str, Any]]:
    """Staged lines that show what the account wrote."""
    return [line for line in staged(folder) if mark(account) in str(line["raw"])]


def test_an_opt_out_that_becomes_known_later_removes_what_an_earlier_harvest_kept(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    """A new label; and a declaration that could not be asked for, since nobody said where the account's server is."""
    dids = {kind: site.did(kind) for kind in KINDS}
    images = {kind: Path("data", "images", on_disk(did)) for kind, did in dids.items()}
    hidden = [
        site.fault("replace", "xrpc/app.bsky", old=LABEL, new='"val":"nothing"'),
        site.fault("status", f"^/{dids['intents_refuse']}", status=404),
    ]
    seeds = ",".join([*dids.values(), site.did(QUOTING)])
    no_alarm = {"HARVESTER_MAX_DROP_RATIO": "1"}
    asked_for = {"seeds": seeds, "depth": "0", "collect": "profiles,posts,lists", "media": "yes"}
    command = harvest(no_alarm, **asked_for, harvest_unknown="yes")
    assert command.run() == 0, command.said
    for kind, did in dids.items():
        assert mongodb.posts.count_documents({"did": did})
        assert words_of(kind, command.folder / "data")
        assert (command.folder / images[kind] / "posts").is_dir()
    assert mongodb.reposts.count_documents({"did": {"$in": [*dids.values()]}})
    assert mongodb.posts.count_documents({"embed.quote.did": {"$in": [*dids.values()]}, "embed.quote.kind": "post"})

    site.clear_faults(*hidden)
    command = harvest(no_alarm, **asked_for)
    assert command.run() == 0, command.said
    for kind, did in dids.items():
        stub = mongodb.profiles.find_one({"_id": did})
        assert stub
        assert stub.keys() - {"intents"} == {"_id", "did", "handle", "opt_outs", "provenance"}
        for name in set(mongodb.list_collection_names()) - {"follows", "profiles"}:
            assert not mongodb[name].count_documents({"did": did}), name
            assert not [row for row in mongodb[name].find() if mark(kind) in str(row)], name
        assert not words_of(kind, command.folder / "data")
        assert not (command.folder / images[kind]).exists()
    quotes = [row["embed"]["quote"] for row in mongodb.posts.find({"embed.quote.did": {"$in": [*dids.values()]}})]
    assert quotes
    assert all(quote.keys() == {"uri", "did", "kind"} and quote["kind"] == "opted_out" for quote in quotes)

    # And a run that knows it writes no word of theirs into a feed, while the server again says nothing.
    site.fault("status", f"^/{dids['intents_refuse']}", status=404)
    command.command += ["-O", "all.jsonl"]
    assert command.run() == 0, command.said
    feed = (command.folder / "all.jsonl").read_text()
    assert mark(QUOTING) in feed
    assert not [kind for kind in KINDS if mark(kind) in feed]
    assert fates(mongodb)["account"][dids["intents_refuse"]] == ("skipped", REASONS["intents_refuse"])


@pytest.mark.parametrize(
    ("number", "same_folder"),
    [pytest.param(signal.SIGKILL, False, marks=pytest.mark.slow), (signal.SIGINT, True)],
)
def test_words_that_a_killed_or_stopped_process_staged_before_another_learnt_that_their_author_refuses_are_taken_back(
    number: signal.Signals,
    same_folder: bool,
    site: Sandbox,
    tmp_path: Path,
    mongodb: Records,
    mongodb_uri: str,
    own_redis: str,
) -> None:
    did = site.did("intents_refuse")
    first, second = tmp_path / "first", tmp_path / ("first" if same_folder else "second")
    shared = {"HARVESTER_REDIS_URL": own_redis, "HARVESTER_LEASE_SECONDS": "3"}

    wanted = {"seeds": f"{did},{site.did(QUOTING)}", "depth": "0", "collect": "profiles,posts"}

    def process(folder: Path) -> Harvest:
        return Harvest(site, folder, mongodb_uri, mongodb.name, shared, **wanted)

    quoting = {"embed.quote.did": did, "embed.quote.text": {"$exists": True}}
    unknown = site.fault("html_403", f"getRecord.*{did}")
    one = process(first)
    one.start()
    assert one.running_until(lambda: mongodb.posts.count_documents(quoting) > 0), one.said
    if number == signal.SIGKILL:
        assert one.end(number) == -number, one.said
    else:
        assert one.end(number) in (130, 7), one.said
    site.clear_faults(unknown)

    other = process(second)
    code = other.run()
    assert code == 0 or (code == 7 and other.run() == 0), other.said
    assert fates(mongodb)["account"][did] == ("skipped", REASONS["intents_refuse"])
    assert not mongodb.posts.count_documents(quoting)
    if not same_folder:
        assert words_of("intents_refuse", first) or any(first.rglob(f"*{OPEN}"))
        progress = first / "data" / ".taken-back.json"
        before, again = progress.read_bytes(), process(first)
        site.fault("hang")
        again.start()
        assert again.running_until(lambda: progress.read_bytes() != before), again.said
        assert again.end(signal.SIGKILL) == -signal.SIGKILL
    assert words_of(QUOTING, first)
    assert not words_of("intents_refuse", first)
    assert not words_of("intents_refuse", second)
    assert not list(tmp_path.rglob(f"*{OPEN}"))
