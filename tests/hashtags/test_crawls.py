"""Crawls of each source, from the sandbox to records in MongoDB, and every way in which a source says no."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from harvester.sandbox.network import special
from harvester.sandbox.posts import SandboxPost
from harvester.sandbox.sources import instagram, tiktok, youtube
from harvester.sandbox.sources.mastodon import POSTS, REFUSING
from harvester.sandbox.sources.popular import TAGS
from tests.hashtags.conftest import Crawls, Document
from tests.jobs.running import FINISHED, LEFT
from tests.numbers import numbers_of
from tests.pipelines.records import post

MOST = 90
"""Posts of a tag that are looked at."""


async def test_counts_alone_want_no_source_and_ask_nobody(crawls: Crawls) -> None:
    for name in ("bluesky_identifier", "bluesky_app_password"):
        crawls.set(name, "")
    crawls.mongodb["posts"].insert_one(post(sort_at=datetime(2026, 11, 1, tzinfo=UTC), tags=("cats",)).to_document())
    assert await crawls.run("hashtags", collect="counts") == FINISHED, crawls.said
    assert [(row["tag"], row["volume"]) for row in crawls.rows("trends")] == [("cats", 1)]
    assert crawls.site.log()["total"] == 0


async def test_trends_and_posts_of_all_sources_become_records_and_the_same_look_again_adds_none(crawls: Crawls) -> None:
    crawls.site.fault("rate_limit", "timelines/tag/rain.*max_id", seconds=1, times=1)
    crawls.site.fault("status", "trending.*geo=DE", status=503, times=1)
    crawls.site.fault("status", "timelines/tag/soup", status=401, error="The access token is invalid", message="")
    (crawls.folder / "tags.txt").write_text("#Fußball\n\nfussball\nnosuchtag\nsoup\n")
    sources = "google,mastodon,bluesky,instagram,youtube"
    wanted = {"sources": sources, "tags": "rain,@tags.txt", "regions": "us,DE", "max_posts": MOST}
    assert await crawls.run("hashtags", **wanted) == FINISHED, crawls.said
    once = crawls.site.log()["total"]
    assert await crawls.run("hashtags", **wanted) == FINISHED, crawls.said
    assert crawls.site.log()["total"] > once

    _check_charts(crawls)
    _check_posts(crawls)
    place = crawls.site.url
    no_hashtag, no_results = (
        ("done", "not_found", "HTTP 400 24: The requested resource does not exist"),
        ("done", "ok", ""),
    )
    items = crawls.items()
    *told, said = items.pop(f"mastodon {place} #soup")
    assert told == ["skipped", "auth_required"]
    for part in (crawls.host, "HTTP 401 The access token is invalid", "docs/hashtags.md"):
        assert part in said
    assert {key: told for key, told in items.items() if told != ("done", "ok", "")} == {
        f"mastodon {place} #nosuchtag": ("done", "not_found", "HTTP 404 Record not found"),
        "instagram #nosuchtag": no_hashtag,
    }
    assert items["youtube #nosuchtag"] == no_results
    assert 1 + len(items) == 2 + 1 + 1 + 2 + 4 * 4  # charts of two countries, an instance and the network; tags
    assert crawls.asked("timelines/tag/soup") == 2  # once a run
    assert crawls.asked("timelines/tag/Fu%C3%9Fball") == 6  # the tag as it was given
    _check_secrets(crawls)


def _check_charts(crawls: Crawls) -> None:
    trends = crawls.rows("trends")
    ranked = {(row["source"], row["region"]): 0 for row in trends if "rank" in row}
    assert ranked.keys() == {
        *(("google", "US"), ("google", "DE"), ("youtube", "US"), ("youtube", "DE")),
        *(("bluesky", "world"), ("mastodon", crawls.host)),
    }
    sizes = {"google": 12, "youtube": len(TAGS), "bluesky": 25, "mastodon": 20}
    looks = {(row["source"], row["region"], row["looked_at"]) for row in trends if "rank" in row}
    for source, region, looked_at in looks:  # two at most of each: the hour may have ended between the runs
        rows = [
            row for row in trends if (row["source"], row["region"], row["looked_at"]) == (source, region, looked_at)
        ]
        rows = [row for row in rows if row["period"] == "1d"]
        assert sorted(row["rank"] for row in rows) == list(range(1, sizes[source] + 1))
        assert all(row["volume"] > 0 and looked_at <= row["provenance"]["fetched_at"] for row in rows)
    known = {row["_id"]: row for row in crawls.rows("hashtags")}
    assert known["instagram rain"]["id"] == f"1784100000{TAGS.index('rain'):07}"
    assert {row["name"] for row in known.values() if row["source"] == "mastodon"} <= {tag.lower() for tag in TAGS}
    counted = {(row["source"], row["tag"]): row["volume"] for row in trends if "rank" not in row}
    assert counted["youtube", "rain"] == youtube.FOUND
    assert counted["bluesky", "rain"] == len(_with_tag(crawls, "rain", refusing=True))


def _check_posts(crawls: Crawls) -> None:
    posts = crawls.rows("tagged_posts")
    looked_at = [number for number in range(POSTS, POSTS - MOST, -1) if number % 6 not in (2, 3, 4)]
    for tag in ("rain", "fussball"):
        of_tag = [row for row in posts if row["source"] == "mastodon" and row["tags"] == [tag]]
        assert len(of_tag) == len(looked_at)
        assert not [row for row in of_tag if any(name.partition("@")[0] in row["author"] for name in REFUSING)]
        assert of_tag[0]["text_clean"].startswith("Number ")
        found = [row for row in posts if row["source"] == "youtube" and row["_id"].startswith("youtube v")]
        assert len([row for row in found if tag in row["tags"]]) == MOST
        media = [row for row in posts if row["source"] == "instagram" and tag in row["tags"]]
        assert len(media) == instagram.MEDIA
        assert not [row for row in media if "author" in row]
    assert {row["_id"] for row in crawls.rows("posts")} == set(_with_tag(crawls, "rain", refusing=False)[:MOST])


def _with_tag(crawls: Crawls, tag: str, *, refusing: bool) -> list[str]:
    """Addresses of the posts of Bluesky with a tag; without those of accounts that refuse, unless wanted."""
    network, written = crawls.site.network, crawls.site.world
    left_out = {special()["private"]}  # its profile says so to those who are not logged in
    posts = [
        post
        for account in range(network.size)
        if not network.hidden(account) and (refusing or account not in left_out)
        for post in (SandboxPost(account, number) for number in range(written.count(account)))
    ]
    return [written.uri(post) for post in posts if tag in str(written.record(post)).lower().split("'")]


def _check_secrets(crawls: Crawls) -> None:
    """None is in the log, in job documents, in records or in what is staged, nor in an address that was asked."""
    secrets = (youtube.KEY, instagram.TOKEN, f"pw-{crawls.site.handle(1)}")
    kept = "".join(str(list(crawls.mongodb[name].find())) for name in crawls.mongodb.list_collection_names())
    asked = str(crawls.site.log()["requests"])
    for secret in secrets:
        assert secret not in crawls.said + kept + asked
    assert instagram.USER not in str(crawls.rows("tagged_posts"))


async def test_what_a_quota_does_not_allow_waits_until_then_and_no_request_is_sent(crawls: Crawls) -> None:
    tags = ",".join(f"other{number}" for number in range(instagram.HASHTAGS + 2))
    wanted = {"sources": "instagram,youtube", "collect": "tags", "tags": tags, "max_posts": 10}
    crawls.site.settings(quotas_left=instagram.HASHTAGS)
    crawls.site.fault("status", "youtube/v3/search.*other1&", status=500, times=1)  # which costs, too
    crawls.site.settings(quotas_left=instagram.HASHTAGS)
    assert await crawls.run("hashtags", **wanted) == LEFT, crawls.said
    at = datetime.now(UTC)

    def waiting() -> dict[str, list[Document]]:
        rows = list(crawls.mongodb["job_items"].find({"state": "waiting"}))
        return {name: [row for row in rows if row["key"].startswith(name)] for name in ("instagram", "youtube")}

    # Instagram: counted here. YouTube: others have used it, which it says itself; then nobody asks any more today.
    assert len(waiting()["instagram"]) == 2
    assert crawls.asked("ig_hashtag_search") == instagram.HASHTAGS
    for row in waiting()["instagram"]:
        assert (row["outcome"], row.get("failures", 0)) == ("rate_limited", 0)
        assert ("instagram" in row["reason"], numbers_of(row["reason"])[:2]) == (True, [30, 7])
        assert timedelta(days=6, hours=23) < row["due_at"] - at < timedelta(days=7)
    midnight = (at.astimezone(ZoneInfo("America/Los_Angeles")) + timedelta(days=1)).date()
    assert {row["due_at"].astimezone(ZoneInfo("America/Los_Angeles")).date() for row in waiting()["youtube"]} == {
        midnight
    }
    searches = crawls.asked("youtube/v3/search")

    assert await crawls.run("hashtags", **wanted) == LEFT, crawls.said
    assert (crawls.asked("ig_hashtag_search"), crawls.asked("youtube/v3/search")) == (instagram.HASHTAGS, searches)

    _turn_clocks(crawls, days=7)
    assert await crawls.run("hashtags", **wanted) == FINISHED, crawls.said
    assert crawls.asked("ig_hashtag_search") == instagram.HASHTAGS + 2
    assert not waiting()["instagram"] + waiting()["youtube"]
    assert {told[0] for told in crawls.items().values()} == {"done"}


def _turn_clocks(crawls: Crawls, days: int) -> None:
    """What was noted was so much earlier, and the sandbox has a later day."""
    by = timedelta(days=days)
    for row in crawls.mongodb["quotas"].find():
        uses = [{**use, "at": use["at"] - by} for use in row.get("uses", ())]
        times = {name: row[name] - by for name in ("until", "ends") if name in row}
        crawls.mongodb["quotas"].update_one(
            {"_id": row["_id"]}, {"$set": {**times, **({"uses": uses} if uses else {})}}
        )
    for row in crawls.mongodb["job_items"].find({"state": "waiting"}):
        crawls.mongodb["job_items"].update_one({"_id": row["_id"]}, {"$set": {"due_at": row["due_at"] - by}})
    crawls.site.settings(clock_forward=by.total_seconds())


async def test_what_tiktok_refuses_its_own_page_is_no_empty_list(crawls: Crawls) -> None:
    crawls.site.settings(tiktok_pages={"DE": 1, "FR": 0, "GB": -1})
    assert await crawls.run("hashtags", sources="tiktok", regions="US,DE,FR,GB") == LEFT, crawls.said
    rows = crawls.rows("trends", source="tiktok")
    by_country = {name: [row for row in rows if row["region"] == name] for name in ("US", "DE", "FR", "GB")}
    assert {name: len(found) for name, found in by_country.items()} == {
        "US": tiktok.HASHTAGS,
        "DE": tiktok.ROWS,
        "FR": 0,
        "GB": 0,
    }
    assert sorted(row["rank"] for row in by_country["US"]) == list(range(1, tiktok.HASHTAGS + 1))
    assert all(len(row["curve"]) == 7 and row["period"] == "7d" for row in rows)
    items = crawls.items()
    assert {key: told[:2] for key, told in items.items()} == {
        "tiktok US 7": ("done", "ok"),
        "tiktok DE 7": ("done", "ok"),
        "tiktok FR 7": ("waiting", "auth_required"),
        "tiktok GB 7": ("done", "empty"),
    }
    refused = "code 40101 no permission"
    reasons = {key: (numbers_of(said), said.endswith(refused)) for key, (_, _, said) in items.items()}
    assert reasons["tiktok US 7"] == ([], False)
    assert (reasons["tiktok DE 7"], reasons["tiktok FR 7"]) == (([10, 40101], True), ([40101], True))


async def test_a_refused_key_and_a_timeline_that_nobody_is_shown_end_their_items_with_the_reason(
    crawls: Crawls,
) -> None:
    crawls.set("youtube_key", "wrong-key-of-mine")
    crawls.set("instagram_token", "wrong-token-of-mine")
    crawls.site.settings(mastodon_access="disabled")
    wanted = {"sources": "youtube,instagram,mastodon", "collect": "tags", "tags": "cats"}
    assert await crawls.run("hashtags", **wanted) == FINISHED, crawls.said
    items = crawls.items()
    *told, said = items[f"mastodon {crawls.site.url} #cats"]
    assert (told, crawls.host in said) == (["skipped", "policy_denied"], True)
    youtube_says, instagram_says = items["youtube #cats"], items["instagram #cats"]
    assert youtube_says[:2] == instagram_says[:2] == ("failed", "auth_required")
    assert "(HTTP 400 keyInvalid: API key not valid." in youtube_says[2]
    assert "HARVESTER_YOUTUBE_KEY" in youtube_says[2]
    assert "(HTTP 400 190: Invalid OAuth access token" in instagram_says[2]
    assert "HARVESTER_INSTAGRAM_TOKEN" in instagram_says[2]
    assert "of-mine" not in crawls.said + str(list(crawls.mongodb["job_items"].find()))
