"""Feeds are looked at again and again: what is new is kept, hints are obeyed, and feeds that are found are added."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.database import Database

from harvester.exceptions import UsageError
from harvester.items import Found, Provenance
from harvester.items.feed import Feed, FeedEntry
from harvester.recheck import read_policy
from harvester.spiders.feeds import USUAL_RECHECK, WAITS, FeedsArguments, FeedsSpider
from tests.conditional.site import Validating
from tests.endpoints.conftest import Endpoints
from tests.jobs.running import FINISHED
from tests.politeness.robots.site import Reply

HEAD = '<rss version="2.0"><channel><title>T</title><ttl>600</ttl>'
PAGE = b'<html><head><link rel="alternate" type="application/rss+xml" href="/rss"></head></html>'


def rss(*ids: int) -> bytes:
    items = "".join(f"<item><guid isPermaLink='false'>{each}</guid><title>{each}</title></item>" for each in ids)
    return f"{HEAD}{items}</channel></rss>".encode()


def reply(body: bytes, kind: str = "application/xml", **headers: str) -> Reply:
    return Reply(200, body, headers, kind)


async def test_new_and_changed_entries_are_kept_hints_are_obeyed_and_pages_lead_to_feeds(
    endpoints: Endpoints, mongodb: Database[dict[str, Any]]
) -> None:
    site = Validating(
        {
            "/rss": [reply(rss(2, 1)), reply(rss(3, 2, 1))],
            "/page": [reply(PAGE, "text/html")],
            "/plain": [reply(b"<html></html>", "text/html")],
            "/sitemap.xml": [
                reply(b"<urlset><url><loc>https://a.example/1</loc></url></urlset>"),
            ],
            "/same": [reply(rss(7), ETag='"a"')],
            "/none": [reply(b"nothing", "text/plain")],
        }
    )
    async with site:
        feeds = ",".join(f"{site.url}/{name}" for name in ("page", "plain", "same", "none"))
        assert await endpoints.run("feeds", feeds=feeds) == FINISHED, endpoints.said
        rss_url = f"{site.url}/rss"
        assert endpoints.ids("feed_entries") == sorted(
            [f"{rss_url} 1", f"{rss_url} 2", f"{site.url}/same 7", f"{site.url}/sitemap.xml https://a.example/1"]
        )
        assert endpoints.ids("feeds") == sorted(f"{site.url}/{name}" for name in ("rss", "same", "sitemap.xml"))
        item, none = endpoints.item(rss_url), endpoints.item(f"{site.url}/none")
        assert "site" in item["why"]
        assert timedelta(hours=9) < item["due_at"] - datetime.now(UTC) <= timedelta(hours=10)
        assert (none["outcome"], none["state"]) == ("layout_changed", "waiting")
        assert "feed" in none["reason"]

        before = endpoints.written("feed_entries")
        endpoints.make_due()
        assert await endpoints.run("feeds", feeds=feeds) == FINISHED, endpoints.said
        after = endpoints.written("feed_entries")
        assert {key for key, at in after.items() if before.get(key) != at} == {f"{rss_url} 3"}
        assert site.said("/same")[-1] == ('"a"', None)
        same = endpoints.item(f"{site.url}/same")
        assert same["due_at"] > datetime.now(UTC) + timedelta(hours=9), "what is as it was has the same hints"
        assert len(mongodb["jobs"].distinct("_id")) == 1


async def test_a_window_that_was_overrun_and_a_file_that_is_cut_are_told_and_repeated_ids_stay_apart(
    endpoints: Endpoints,
) -> None:
    links = "<item><guid isPermaLink='false'>0</guid><link>https://a.example/{}</link></item>".format
    same_ids = [f"{HEAD}{''.join(map(links, numbers))}</channel></rss>".encode() for numbers in ((2, 1), (3,))]
    site = Validating(
        {
            "/fast": [reply(rss(2, 1)), reply(rss(9, 8))],
            "/slow": [reply(rss(2, 1)), reply(rss(3, 2))],
            "/cut": [reply(rss(2, 1)[:-40]), reply(rss(2, 1))],
            "/never": [reply(rss(3, 2, 1)[:-40]), reply(rss(4, 3, 2, 1)[:-40])],
            "/same": [reply(body) for body in same_ids],
        }
    )
    async with site:
        feeds = ",".join(f"{site.url}/{name}" for name in ("fast", "slow", "cut", "never", "same"))
        assert await endpoints.run("feeds", feeds=feeds) == FINISHED, endpoints.said
        assert endpoints.item(f"{site.url}/cut")["stage"] == "cut_short"
        assert endpoints.item(f"{site.url}/fast")["stage"] == "whole"
        before = endpoints.written("feed_entries")
        endpoints.make_due()
        assert await endpoints.run("feeds", feeds=feeds) == FINISHED, endpoints.said
        stages = {name: endpoints.item(f"{site.url}/{name}")["stage"] for name in ("fast", "slow", "cut")}
        assert stages == {"fast": "overrun", "slow": "whole", "cut": "whole"}
        stored = endpoints.ids("feed_entries")
        assert {f"{site.url}/cut 1", f"{site.url}/cut 2"} <= {*stored}
        assert len([key for key in stored if "/same " in key]) == 3
        after = endpoints.written("feed_entries")
        new = {key.rpartition(" ")[2] for key, at in after.items() if "/never " in key and before.get(key) != at}
        assert new == {"4"}, "what a cut file showed before is known"


async def test_hints_are_those_of_the_feed_and_not_of_its_oldest_page(endpoints: Endpoints) -> None:
    leads_to = '<a:link xmlns:a="http://www.w3.org/2005/Atom" rel="next" href="/old"/>'
    newest = rss(3, 2).replace(b"<ttl>", f"{leads_to}<ttl>".encode())
    oldest = rss(1).replace(b"<ttl>600</ttl>", b"")
    site = Validating(
        {
            "/feed": [reply(newest, "text/html")],
            "/old": [reply(oldest, **{"Cache-Control": "max-age=86400"})],
        }
    )
    async with site:
        assert await endpoints.run("feeds", feeds=f"{site.url}/feed", history="yes") == FINISHED, endpoints.said
        assert endpoints.ids("feed_entries") == [f"{site.url}/feed {number}" for number in (1, 2, 3)]
        item = endpoints.item(f"{site.url}/feed")
    assert item["left"]["kept"]["hints"] == {"interval_s": 36_000}


async def test_a_feed_is_not_asked_in_an_hour_in_which_it_wants_no_look(endpoints: Endpoints) -> None:
    """Also when the policy would have it: the hour was none of these when it was looked at last."""
    site = Validating({"/feed": [reply(rss(1).replace(b"<ttl>600</ttl>", b""))]})
    async with site:
        feed = f"{site.url}/feed"
        assert await endpoints.run("feeds", feeds=feed) == FINISHED, endpoints.said
        now = datetime.now(UTC)
        hours = [(now.hour + later) % 24 for later in range(3)]
        endpoints.mongodb["job_items"].update_one({"key": feed}, {"$set": {"left.kept.hints.skip_hours": hours}})
        endpoints.make_due()
        assert await endpoints.run("feeds", feeds=feed) == FINISHED, endpoints.said
        assert len(site.said("/feed")) == 1
        item = endpoints.item(feed)
        assert (item["state"], item.get("failures", 0), item["reason"]) == ("waiting", 0, WAITS)
        assert item["due_at"] == now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=3)


BAD = [
    ({}, "no feed"),
    ({"feeds": "example.org/feed"}, "'example.org/feed'"),
    ({"feeds": "@missing.txt"}, "missing.txt"),
    ({"feeds": "https://a.example/feed", "recheck": "hourly"}, "recheck: 'hourly'"),
    ({"feeds": "https://a.example/feed", "history": "perhaps"}, "history: "),
    ({"feeds": "https://a.example/feed", "feed": "x"}, "feed: "),
]
"""Arguments, and what is said of them."""


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_arguments_that_cannot_be_used_are_refused(
    arguments: dict[str, str], said: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        FeedsSpider.parse_arguments(arguments)
    assert said in str(refused.value)


def test_the_lines_of_a_file_that_name_no_feed_are_told(tmp_path: Any) -> None:
    file = tmp_path / "feeds.txt"
    file.write_text("https://a.example/feed\nnonsense\n", "utf-8")
    with pytest.raises(UsageError, match="Line 2, 'nonsense': "):
        FeedsSpider.parse_arguments({"feeds": f"@{file}"})


def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path: Any) -> None:
    address = "https://ann:hunter2@a.example/feed"
    file = tmp_path / "feeds.txt"
    file.write_text(f"{address}\n", "utf-8")
    for given in (address, f"@{file}"):
        with pytest.raises(UsageError, match="password") as refused:
            FeedsSpider.parse_arguments({"feeds": given})
        assert "hunter2" not in str(refused.value)
    with pytest.raises(UsageError, match="password") as refused:
        FeedsSpider.check_item(Found("feed", address))
    assert "hunter2" not in str(refused.value)


def test_the_same_feeds_are_the_same_job_however_often_they_are_looked_at() -> None:
    one, other = (
        FeedsArguments(feeds="https://a.example/"),
        FeedsArguments(feeds="https://a.example/", recheck="every 1h"),
    )
    assert one.identity() == other.identity()
    assert one.recheck == str(read_policy(USUAL_RECHECK))
    assert FeedsSpider.recheck_of(other) == "every 1h"


def test_what_was_staged_is_read_again() -> None:
    page = Provenance("https://a.example/feed", datetime(2026, 1, 1, tzinfo=UTC), "feeds")
    raw = b'{"feed_url":"https://a.example/feed","id":"1","published_at":"2026-01-01T00:00:00Z","categories":["k"]}'
    entry = FeedsSpider.read_staged("feed_entry", "https://a.example/feed 1", raw, page)
    assert isinstance(entry, FeedEntry)
    assert (entry.published_at, entry.categories) == (page.fetched_at, ("k",))
    feed = FeedsSpider.read_staged("feed", "https://a.example/feed", b'{"feed_url":"x","form":"rss"}', page)
    assert isinstance(feed, Feed)
