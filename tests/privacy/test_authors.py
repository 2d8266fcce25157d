"""Authors elsewhere than at Bluesky are purged as accounts are: what they posted goes, what names them stays."""

import json
from typing import Any

import pytest
from pymongo.database import Database

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.items import Batch, Record, Reject
from harvester.items.trend import TaggedPost, Trend
from harvester.parsers.hashtags import mastodon, youtube
from harvester.parsers.hashtags.rows import VisitContext
from harvester.parsers.hashtags.staged import read_staged
from harvester.pipelines.consent import ConsentPipeline
from harvester.pipelines.staging import staged_line
from harvester.privacy import purge
from harvester.stores.rejects import rejected_line
from harvester.stores.staging import SegmentWriter
from tests.pipelines.records import crawler, stats
from tests.privacy import harvest

Mongo = Database[dict[str, Any]]

HOST = "https://example.social"
ANNE = f"{HOST}/users/anne"
CHANNEL = "UCanne-0123456789abcdefg"


def status(name: str, number: int, **told: Any) -> TaggedPost:
    user, uri = f"{HOST}/users/{name}", f"{HOST}/users/{name}/statuses/{number}"
    row = {"uri": uri, "content": f"<p>{name} wrote this</p>", "account": {"uri": user, "display_name": name}} | told
    return mastodon.post_of(row, json.dumps(row).encode(), harvest.PROVENANCE)


def video(channel: str, name: str) -> list[Record]:
    """What a look at popular videos makes of one."""
    snippet = {"title": name, "channelId": channel, "channelTitle": f"{channel} shows"}
    row = {"id": name, "snippet": snippet, "statistics": {"viewCount": "7"}}
    look = VisitContext(youtube.SOURCE, "US", youtube.PERIOD, harvest.PROVENANCE.fetched_at, harvest.PROVENANCE)
    raw = json.dumps(row).encode()
    return [*youtube.trends_of(row, raw, 1, look), youtube.post_of(row, raw, harvest.PROVENANCE)]


def of(account: str) -> list[Record]:
    return [status("anne", 1), status("anne", 2)] if account == ANNE else video(CHANNEL, "v1")


MENTIONS = [{"url": ANNE, "acct": "anne"}]
OTHERS = [status("ann", 1), status("annemarie", 1), status("bo", 1, mentions=MENTIONS, note=CHANNEL)]
OTHERS_VIDEOS = [*video("UCbo", "v2"), *video(f"{CHANNEL}x", "v3")]


@pytest.fixture
def kept(mongodb: Mongo, config: Config) -> list[Record]:
    """Posts and videos of Anne's and of others, stored and staged; and a rejected row of hers."""
    others: list[Record] = [*OTHERS, *OTHERS_VIDEOS]
    records = [*of(ANNE), *of(CHANNEL), *others]
    writer = SegmentWriter(config.data_dir / "staging" / "hashtags")
    for record in records:
        mongodb[record.COLLECTION].insert_one({"_id": record.key, **record.to_document()})
        writer.write(record.KIND, [staged_line(record)])
    writer.close()
    writer = SegmentWriter(config.data_dir / "rejects" / "hashtags")
    for row in ({"account": {"uri": ANNE}}, {"snippet": {"channelId": CHANNEL}}, {"account": {"uri": f"{HOST}/bo"}}):
        raw = json.dumps(row).replace("/", r"\/").encode()  # as some servers write it
        reject = Reject(TaggedPost.KIND, "no id", "", raw, f"{HOST}/api")
        writer.write(TaggedPost.KIND, [rejected_line(reject)])
    writer.close()
    return others


def stored(mongodb: Mongo) -> set[str]:
    return {key for kind in (TaggedPost, Trend) for key in mongodb[kind.COLLECTION].distinct("_id")}


@pytest.mark.parametrize("author", [ANNE, CHANNEL])
def test_all_that_an_author_posted_goes_and_what_others_wrote_stays(
    mongodb: Mongo, config: Config, kept: list[Record], author: str
) -> None:
    theirs = {record.key for record in of(author)}
    before, staged = stored(mongodb), harvest.lines(config)
    who = purge.resolve(mongodb, author)
    findings = purge.find(mongodb, config, who.id)
    assert findings.counts["staged lines"] == len(theirs) + 1
    purge.purge(mongodb, config, who, findings)
    assert stored(mongodb) == before - theirs
    left = harvest.lines(config)
    assert sum(map(len, staged.values())) - sum(map(len, left.values())) == len(theirs) + 1
    lines = {line for of_kind in left.values() for line in of_kind}
    assert {staged_line(record) for record in kept} <= lines
    for line in lines:
        staged_row = json.loads(line)
        if staged_row["kind"] in (TaggedPost.KIND, Trend.KIND) and staged_row["key"]:
            raw = json.dumps(staged_row["raw"]).encode()
            record = read_staged(staged_row["kind"], staged_row["key"], raw, harvest.PROVENANCE)
            assert record
            assert record.belongs_to != author
    assert not purge.find(mongodb, config, who.id).counts.total()


@pytest.mark.parametrize("author", [ANNE, CHANNEL])
async def test_nothing_is_kept_of_a_purged_author_until_that_is_undone(
    mongodb: Mongo, config: Config, kept: list[Record], author: str
) -> None:
    who = purge.resolve(mongodb, author)
    purge.purge(mongodb, config, who, purge.find(mongodb, config, who.id))
    assert [row["_id"] for row in purge.purged(mongodb)] == [author]
    assert purge.resolve(mongodb, author) == who, "it can be purged once more"
    runs = crawler()
    pipeline = ConsentPipeline(runs, config)
    await pipeline.open_spider()
    try:
        batch = await pipeline.process_item(Batch([*of(author), *OTHERS, *OTHERS_VIDEOS]))
    finally:
        await pipeline.close_spider()
    assert batch.records == [*OTHERS, *OTHERS_VIDEOS]
    assert stats(runs)["consent/purged/tagged_post"] == len([r for r in of(author) if isinstance(r, TaggedPost)])
    assert purge.undo(mongodb, author) == who
    assert purge.purged(mongodb) == []


def test_an_author_of_whom_nothing_is_kept_is_refused(mongodb: Mongo, kept: list[Record]) -> None:
    with pytest.raises(UsageError, match="`author`"):
        purge.resolve(mongodb, f"{HOST}/@anne")
