"""Endpoints are looked at again and again: what is new is kept, what is not costs no write, and none is lost."""

import re
from pathlib import Path
from typing import Any

import zstandard

from tests.endpoints.conftest import Endpoints
from tests.endpoints.site import Api
from tests.jobs.running import FINISHED
from tests.numbers import numbers_of


def rows(*ids: int, price: Any = 1) -> list[dict[str, Any]]:
    return [{"id": number, "price": price} for number in ids]


def rejected(folder: Path) -> str:
    files = sorted((folder / "data" / "rejects").rglob("*.zst"))
    reader = zstandard.ZstdDecompressor()
    return b"".join(reader.stream_reader(path.read_bytes(), read_across_frames=True).read() for path in files).decode()


async def test_what_is_new_is_kept_and_what_is_known_costs_neither_page_nor_write(
    endpoints: Endpoints, api: Api, tmp_path: Path
) -> None:
    text = f"""
    [defaults]
    interval = "1m"

    [news]
    url = "{api.url}/news"
    rows = "data.items"
    key = "id"
    pages = {{ by = "cursor", parameter = "cursor", at = "next", in_a_row = 1 }}

    [numbered]
    url = "{api.url}/numbered"
    rows = "items"
    key = "id"
    pages = {{ by = "page", parameter = "page", total = "total", in_a_row = 1 }}

    [weather]
    url = "{api.url}/weather"
    headers = {{ X-Key = "${{WEATHER_KEY}}" }}

    [prices]
    url = "{api.url}/prices"
    rows = "@"
    key = ["shop", "/id"]
    collection = "shop_prices"
    schema = {{ type = "object", properties = {{ price = {{ type = "number" }} }} }}
    """
    api.rows |= {"/news": rows(5, 4, 3, 2, 1), "/numbered": rows(7, 6, 5, 4, 3, 2, 1)}
    api.documents["/weather"] = {"degrees": 3, "wind": {"from": "N"}}
    api.documents["/prices"] = [{"shop": "a", **row} for row in rows(1, 2)] + [{"shop": "a", "id": 3, "price": "many"}]
    api.secrets["/weather"] = "a-very-secret-key"
    endpoints.set(WEATHER_KEY="a-very-secret-key")
    assert await endpoints.look(text) == FINISHED, endpoints.said
    assert endpoints.ids("news") == ["1", "2", "3", "4", "5"]
    assert endpoints.ids("numbered") == ["1", "2", "3", "4", "5", "6", "7"]
    assert endpoints.ids("shop_prices") == ["a/1", "a/2"]
    (weather,) = endpoints.mongodb["weather"].find()
    assert weather["data"] == {"degrees": 3, "wind": {"from": "N"}}
    assert "price: 'many'" in rejected(tmp_path)
    assert api.asked("/news") == ["", "cursor=3"]
    assert api.asked("/numbered") == ["page=1", "page=2", "page=3", "page=4"]
    assert {name: endpoints.item(name)["recheck"] for name in ("news", "weather")} == dict.fromkeys(
        ("news", "weather"), "every 1m"
    )

    before = {name: endpoints.written(name) for name in ("news", "numbered", "shop_prices", "weather")}
    api.rows["/news"] = rows(6, 5, 4, 3, 2, 1)
    api.rows["/numbered"][2]["price"] = 2
    assert await endpoints.look() == FINISHED, endpoints.said
    assert api.asked("/news") == [""]
    assert api.asked("/numbered") == ["page=1"]
    after = {name: endpoints.written(name) for name in before}
    assert after["weather"] == before["weather"]
    assert after["shop_prices"] == before["shop_prices"]
    assert {key for key, at in after["news"].items() if before["news"].get(key) != at} == {"6"}
    assert {key for key, at in after["numbered"].items() if before["numbered"].get(key) != at} == {"5"}
    assert endpoints.mongodb["numbered"].find_one({"_id": "5"})["price"] == 2  # type: ignore[index]
    assert [api.unchanged[path] for path in ("/weather", "/prices")] == [1, 1]
    assert len(endpoints.mongodb["jobs"].distinct("_id")) == 1

    secret = "a-very-secret-key"
    kept = [str(row) for name in endpoints.mongodb.list_collection_names() for row in endpoints.mongodb[name].find()]
    assert not any(secret in each for each in kept)
    assert secret not in endpoints.said


async def test_endpoints_with_one_address_each_see_what_is_new_there(endpoints: Endpoints, api: Api) -> None:
    text = f"""
    [defaults]
    url = "{api.url}/pets"
    interval = "1h"
    key = "id"

    [cats]
    rows = "cats"

    [dogs]
    rows = "dogs"
    """
    api.documents["/pets"] = {"cats": rows(1), "dogs": rows(1)}
    assert await endpoints.look(text) == FINISHED, endpoints.said
    api.documents["/pets"] = {"cats": rows(2, 1), "dogs": rows(2, 1)}
    for name in ("cats", "dogs", "cats", "dogs"):
        endpoints.make_due(key=name)
        assert await endpoints.run("endpoints", endpoints=f"@{endpoints.file}") == FINISHED, endpoints.said
    assert endpoints.ids("cats") == endpoints.ids("dogs") == ["1", "2"]
    assert api.unchanged["/pets"] == 2


async def test_a_document_whose_names_are_data_neither_fails_nor_ends_the_run(endpoints: Endpoints, api: Api) -> None:
    """All its names with what they stand in would be more than MongoDB holds in a document."""
    names = {str(name): dict.fromkeys(map(str, range(100)), 1) for name in range(100)}
    api.documents |= {"/names": {"n" * 2000: names}, "/weather": {"degrees": 3}}
    text = f"""
    [names]
    url = "{api.url}/names"

    [weather]
    url = "{api.url}/weather"
    """
    assert await endpoints.look(text) == FINISHED, endpoints.said
    assert [len(endpoints.ids(name)) for name in ("names", "weather")] == [1, 1]


async def test_a_document_that_cannot_be_kept_is_no_success(endpoints: Endpoints, api: Api) -> None:
    api.documents |= {"/huge": {"number": 2**63}, "/nul": {"a\0b": 1}}
    text = f"""
    [huge]
    url = "{api.url}/huge"

    [nul]
    url = "{api.url}/nul"
    """
    await endpoints.look(text)
    assert await endpoints.standings() == {"huge": "FAILED", "nul": "FAILED"}
    assert "MongoDB can only handle" in endpoints.item("huge")["reason"]


async def test_a_look_that_broke_off_leaves_no_hole_and_a_refused_cursor_begins_it_anew(
    endpoints: Endpoints, api: Api
) -> None:
    text = f"""
    [news]
    url = "{api.url}/news"
    rows = "data.items"
    key = "id"
    pages = {{ by = "cursor", parameter = "cursor", at = "next" }}
    """
    api.rows["/news"] = rows(4, 3, 2, 1)
    assert await endpoints.look(text) == FINISHED, endpoints.said
    assert api.asked("/news") == ["", "cursor=2"]
    api.rows["/news"] = rows(9, 8, 7, 6, 5, 4, 3, 2, 1)
    api.cursors_ok = False
    await endpoints.look()
    assert api.asked("/news") == ["", "cursor=7", "", "cursor=7"], endpoints.said  # begun anew, once
    assert (endpoints.item("news")["outcome"], endpoints.item("news")["stage"]) == ("invalid", "whole")
    assert endpoints.ids("news") == ["1", "2", "3", "4", "7", "8", "9"]
    api.cursors_ok = True
    api.rows["/news"] = rows(10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
    assert await endpoints.look() == FINISHED, endpoints.said
    assert endpoints.ids("news") == sorted(map(str, range(1, 11))), "what the broken look did not reach is there"


async def test_a_look_whose_process_is_killed_goes_on_and_leaves_no_hole(endpoints: Endpoints, api: Api) -> None:
    text = f"""
    [news]
    url = "{api.url}/news"
    rows = "data.items"
    key = "id"
    pages = {{ by = "cursor", parameter = "cursor", at = "next" }}
    """
    api.rows["/news"] = rows(4, 3, 2, 1)
    assert await endpoints.look(text) == FINISHED, endpoints.said
    api.asked("/news")
    api.rows["/news"] = rows(*range(12, 0, -1))
    api.answers_at_all.clear()
    endpoints.make_due()
    process = await endpoints.start("endpoints", endpoints=f"@{endpoints.file}")
    await endpoints.until(lambda: len(api.arrivals) == 2 and "10" in endpoints.ids("news"))
    await endpoints.kill(process)
    api.answers_at_all.set()
    assert "9" not in endpoints.ids("news")
    await endpoints.run("endpoints", endpoints=f"@{endpoints.file}")
    assert endpoints.ids("news") == sorted(map(str, range(1, 13)))
    assert endpoints.item("news")["left"]["mark"]
    api.asked("/news")
    assert await endpoints.look() == FINISHED, endpoints.said
    assert api.asked("/news") == [""], "all is known"


async def test_a_changed_schema_is_noticed_and_taken_when_a_person_says_so(endpoints: Endpoints, api: Api) -> None:
    text = f"""
    [prices]
    url = "{api.url}/prices"
    rows = "@"
    key = "id"

    [gone]
    url = "{api.url}/gone"
    """
    api.documents["/prices"] = rows(1, 2)
    api.bad["/gone"] = 404
    await endpoints.look(text)
    assert endpoints.item("gone")["outcome"] == "not_found"
    api.documents["/prices"] = [{"id": 1, "cost": 1}, {"id": 2, "cost": 2}]
    endpoints.mongodb["job_items"].update_one({"key": "gone"}, {"$set": {"failures": 9}})
    await endpoints.look()
    prices, gone = endpoints.item("prices"), endpoints.item("gone")
    assert (prices["outcome"], prices["state"]) == ("layout_changed", "waiting")
    assert re.search("'price'.*'cost'", prices["reason"])
    assert "cost" not in endpoints.mongodb["prices"].find_one({"_id": "1"})  # type: ignore[operator]
    assert gone["state"] == "failed", "after ten failures it is left alone"
    assert "due_at" not in gone
    api.asked("/gone")
    del api.bad["/gone"]
    api.documents["/gone"] = {"here": "again"}
    await endpoints.look()
    assert api.asked("/gone") == []

    assert await endpoints.standings() == {"gone": "PERMANENTLY_FAILED", "prices": "FAILED"}
    assert re.search("'price'.*'cost'", await endpoints.command("endpoints", "list"))
    assert numbers_of(await endpoints.command("endpoints", "restart", "gone")) == [1]
    assert numbers_of(await endpoints.command("endpoints", "restart", "--all")) == [1]
    assert await endpoints.look() == FINISHED, endpoints.said
    assert endpoints.mongodb["prices"].find_one({"_id": "1"})["cost"] == 1  # type: ignore[index]
    assert endpoints.mongodb["gone"].count_documents({}) == 1
    assert await endpoints.standings() == {"gone": "SUCCESS", "prices": "SUCCESS"}
