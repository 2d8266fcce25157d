"""A harvest that is stopped, and one that is done again."""

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from harvester.sandbox import images
from harvester.stores.objects import on_disk
from tests.bluesky.compared import untruths
from tests.bluesky.conftest import EVERYTHING, Records
from tests.crash.harvest import Harvest, documents
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
PICTURED = 20
LATER = 21


def test_ctrl_c_ends_cleanly_and_says_how_to_continue_and_the_next_run_completes(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    slow = harvest({"HARVESTER_REQUESTS_PER_SECOND": "40"}, collect=EVERYTHING)
    slow.start()
    assert slow.running_until(lambda: documents(mongodb) > 100), slow.said
    assert slow.end(signal.SIGINT) == 130, slow.said
    said = slow.said
    assert f"crawl bluesky -a seeds={site.handle(0)} -a depth=10" in said
    assert "Traceback" not in said
    [job] = mongodb.jobs.find()
    assert job["state"] == "open"
    assert not list((slow.folder / "data").rglob("*.open"))
    fast = harvest(collect=EVERYTHING)
    assert fast.run() == 0, fast.said
    assert job["_id"] in fast.said
    assert untruths(site, mongodb) == []
    assert [(row["_id"], row["state"]) for row in mongodb.jobs.find()] == [(job["_id"], "finished")]
    runs = mongodb.runs.find().sort("started_at")
    assert [(row["state"], row["resumed"]) for row in runs] == [("interrupted", False), ("finished", True)]


def test_a_finished_harvest_done_again_is_a_new_job_that_brings_what_has_changed(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    seeds = ",".join(map(site.did, (0, PICTURED, LATER)))
    command = harvest(seeds=seeds, depth="0", collect="profiles,posts", media="yes")
    assert command.run() == 0, command.said
    folder = command.folder / "data" / "images"
    before = stored_pictures(folder)
    assert before.keys() == documented_paths(site, mongodb)
    assert {path.name for path in (folder / on_disk(site.did(0))).iterdir()} == {"pfp.jpg", "banner.jpg", "posts"}
    assert all(Image.open(BytesIO(content)).format == "JPEG" for content in before.values())
    assert {tuple(row["quote_count"] for row in mongodb.posts.find())} == {(0,) * mongodb.posts.count_documents({})}

    replace_avatar(site)
    site.fault("replace", match="getAuthorFeed", old='"quoteCount":0', new='"quoteCount":5')
    future = {"provenance.fetched_at": datetime.now(UTC) + timedelta(hours=1), "handle": "later.example"}
    mongodb.profiles.update_one({"_id": site.did(LATER)}, {"$set": future})
    site.clear_log()
    assert command.run() == 0, command.said
    first, second = mongodb.jobs.find().sort("number")
    assert (first["state"], second["state"]) == ("finished", "finished")
    assert (first["number"], second["number"]) == (1, 2)
    assert {row["quote_count"] for row in mongodb.posts.find()} == {5}
    assert {row["provenance"]["crawl"] for row in mongodb.posts.find()} == {second["_id"]}
    observed_later = mongodb.profiles.find_one({"_id": site.did(LATER)})
    assert observed_later
    assert observed_later["handle"] == "later.example", "an older observation does not win"
    after = stored_pictures(folder)
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {f"{on_disk(site.did(PICTURED))}/pfp.jpg"}
    assert after.keys() == before.keys()
    fetched = [entry["path"] for entry in site.log()["requests"] if entry["path"].startswith("/img/")]
    assert len(fetched) == 1, "only the changed avatar is fetched again"


def replace_avatar(site: Sandbox) -> None:
    """The account shows another picture from now on."""
    old = site.records.profiles.avatar(PICTURED)
    new = next(one for one in (images.picture("avatar", 1), images.picture("avatar", 2)) if one != old)
    assert old
    path = f"/img/avatar/plain/{site.did(PICTURED)}/"
    site.fault("replace", match="getProfile", old=path + old.cid, new=path + new.cid)


def stored_pictures(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.jpg")}


def documented_paths(site: Sandbox, database: Records) -> set[str]:
    """Where pictures must lie, by docs/records.md; each record must point to its own."""
    found: set[str] = set()
    for row in database.profiles.find():
        paths = {
            slot: f"{on_disk(row['did'])}/{name}.jpg"
            for slot, name in (("avatar", "pfp"), ("banner", "banner"))
            if row.get(f"{slot}_url")
        }
        assert row.get("media_paths", {}) == paths
        found.update(paths.values())
    for row in database.posts.find():
        shown: list[Any] = row.get("embed", {}).get("images", [])
        paths = {str(place): f"{on_disk(row['did'])}/posts/{row['cid']}_{place}.jpg" for place in range(len(shown))}
        assert row.get("media_paths", {}) == paths
        found.update(paths.values())
    return found
