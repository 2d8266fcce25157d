"""A record is marked in the write that stores it: by a real insert or a change of what it says, and by nothing else."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from pymongo.database import Database

from harvester.config import load_config
from harvester.items.base import OUTBOX
from harvester.items.other import item_type
from harvester.publish.outbox import content_of
from tests.pipelines.records import PAGE, follow, post, profile
from tests.publish.conftest import House

Document = dict[str, Any]


def seen(record: Any, seconds: float, **fields: Any) -> Any:
    """The same record, observed so much later."""
    return replace(record, provenance=replace(PAGE, fetched_at=PAGE.fetched_at + timedelta(seconds=seconds)), **fields)


def mark(database: Database[Document], collection: str = "posts") -> Document:
    found = database[collection].find_one()
    assert found
    return dict(found[OUTBOX])


async def test_a_new_record_is_marked_and_one_that_says_the_same_again_is_not(house: House) -> None:
    await house.store(post())
    first = mark(house.database)
    assert first["version"] == 1
    assert "due" in first
    house.database["posts"].update_one({}, {"$unset": {f"{OUTBOX}.due": ""}, "$set": {f"{OUTBOX}.told": 1}})
    told = mark(house.database)
    await house.store(seen(post(), 60), seen(post(), 120))
    assert mark(house.database) == told
    stored = house.database["posts"].find_one()
    assert stored
    assert stored["provenance"]["fetched_at"] == PAGE.fetched_at + timedelta(seconds=120)


async def test_each_change_of_what_it_says_is_a_version_and_an_older_observation_is_none(house: House) -> None:
    await house.store(post())
    await house.store(seen(post(like_count=1), 1))
    assert mark(house.database)["version"] == 2
    await house.store(seen(post(like_count=5), -1))
    assert mark(house.database)["version"] == 2
    await house.store(seen(post(like_count=0), 3))
    assert mark(house.database)["version"] == 3
    stored = house.database["posts"].find_one()
    assert stored
    assert stored["like_count"] == 0
    assert content_of(stored) == mark(house.database)["content"]


async def test_text_that_looks_like_an_expression_of_mongodb_is_stored_as_it_is(house: House) -> None:
    await house.store(post())
    await house.store(seen(post(text="$like_count", langs=("$$ROOT",)), 1))
    stored = house.database["posts"].find_one()
    assert stored
    assert (stored["text"], stored["langs"]) == ("$like_count", ["$$ROOT"])


async def test_files_that_were_stored_stay_with_the_record(house: House) -> None:
    house.publish('[all]\nkind = "redis"\n')
    shown = {"avatar_url": "https://cdn.example/a.jpg", "banner_url": "https://cdn.example/b.jpg"}
    await house.store(profile(**shown, media_paths={"avatar": "a/pfp.jpg"}))
    await house.store(seen(profile(**shown, media_paths={"banner": "a/banner.jpg"}), 1))
    await house.store(seen(profile(**shown), 2))
    stored = house.database["profiles"].find_one()
    assert stored
    assert stored["media_paths"] == {"avatar": "a/pfp.jpg", "banner": "a/banner.jpg"}
    assert mark(house.database, "profiles")["version"] == 1


async def test_fields_that_a_record_has_no_more_are_gone(house: House) -> None:
    await house.store(post(langs=("en",)))
    await house.store(seen(post(), 1))
    stored = house.database["posts"].find_one()
    assert stored
    assert "langs" not in stored
    assert mark(house.database)["version"] == 2


async def test_items_whose_fields_vary_are_marked_likewise(house: House) -> None:
    house.publish('[all]\nkind = "redis"\n')
    kind = item_type("toys")

    def item(seconds: float, **fields: Any) -> Any:
        at = replace(PAGE, fetched_at=PAGE.fetched_at + timedelta(seconds=seconds), spider="toys")
        return kind.of({"_id": "1", **fields}, (), at)

    await house.store(item(0, price=1, colour="red"))
    await house.store(item(1, price=2))
    assert mark(house.database, kind.COLLECTION)["version"] == 2
    await house.store(item(2, price=2))
    stored = house.database[kind.COLLECTION].find_one()
    assert stored
    assert stored[OUTBOX]["version"] == 2
    assert (stored["price"], "colour" in stored) == (2, False)
    assert stored["provenance"]["fetched_at"] == PAGE.fetched_at + timedelta(seconds=2)


async def test_only_what_a_sink_wants_is_marked(house: House) -> None:
    house.publish('[some]\nkind = "redis"\nrecords = ["post"]\n[others]\nkind = "redis"\nspiders = ["vgsi"]\n')
    await house.store(post(), follow(), profile())
    assert OUTBOX in (house.database["posts"].find_one() or {})
    assert OUTBOX not in (house.database["follows"].find_one() or {})
    assert OUTBOX not in (house.database["profiles"].find_one() or {})


async def test_what_was_stored_before_anything_was_published_is_news_only_when_it_changes(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.delenv("HARVESTER_PUBLISH_FILE")
        load_config.cache_clear()
        await house.store(post(key="1"), post(key="2"))
        assert OUTBOX not in (house.database["posts"].find_one() or {})
    load_config.cache_clear()
    await house.store(seen(post(key="1"), 1), seen(post(key="2", like_count=9), 1))
    marks = [row[OUTBOX] for row in house.database["posts"].find(sort=[("_id", 1)])]
    assert [(row["version"], "due" in row) for row in marks] == [(0, False), (1, True)]
