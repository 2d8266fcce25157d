"""Records that break a rule become rejects, which are counted, kept on disk and named once in the log."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harvester.items import Batch, Record, Reject
from harvester.items.bluesky import Facet, Like, ListItem, Post, Thread
from harvester.pipelines.validate import ValidatePipeline
from harvester.stores.rejects import Rejects, slug
from harvester.stores.staging import read_segment
from tests.pipelines.records import ALICE, PAGE, crawler, follow, post, profile, repost, stats

AT = f"at://{ALICE}/app.bsky"
EDGE: dict[str, Any] = {"did": ALICE, "provenance": PAGE}


async def _validated(folder: Path, batch: Batch) -> tuple[Batch, dict[str, Any], list[dict[str, Any]]]:
    """What goes on, the stats, and the rejects on disk."""
    runs = crawler()
    rejects = Rejects(runs, folder)
    pipeline = ValidatePipeline(runs, rejects)
    await pipeline.open_spider()
    passed = await pipeline.process_item(batch)
    rejects.close()
    lines = [line for path in _segments(folder) for line in read_segment(path)]
    return passed, stats(runs), [msgspec.json.decode(line) for line in lines]


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jsonl.zst"))


@pytest.mark.parametrize(
    "record",
    [
        post(text="x" * (Post.MOST_TEXT_BYTES + 1)),
        post(text="é" * (Post.MOST_TEXT_BYTES // 2 + 1)),
        post(text="four", facets=(Facet(0, 5, "tag", "x"),)),
        post(facets=(Facet(-1, 2, "tag", "x"),)),
        post(facets=(Facet(2, 2, "tag", "x"),)),
        post(root_uri=f"{AT}.feed.post/1"),
        post(parent_uri=f"{AT}.feed.post/1"),
        post(like_count=-1),
        post(bookmark_count=-1),
        post(media_urls=("https://a.example/1", "javascript:alert(1)")),
        profile(description="x" * (Post.MOST_TEXT_BYTES + 1)),
        profile(followers_count=-1),
        profile(avatar_url="data:image/png;base64,AAAA"),
        profile(banner_url="file:///etc/passwd"),
        follow(subject_did="somebody"),
        Like(**EDGE, uri=f"{AT}.feed.like/1", subject_uri="https://a.example", subject_did=ALICE),
        ListItem(**EDGE, uri=f"{AT}.graph.listitem/1", list_uri=f"{AT}.graph.list/1", subject_did=""),
        Thread(**EDGE, uri=f"{AT}.feed.post/1", post_count=0),
    ],
    ids=lambda record: record.problem() or "no problem",
)
def test_a_record_that_breaks_a_rule_is_found(record: Record) -> None:
    assert record.problem()


@pytest.mark.parametrize(
    "record",
    [
        post(text="x" * Post.MOST_TEXT_BYTES),
        post(text="four", facets=(Facet(0, 4, "tag", "x"),)),
        post(root_uri="at://x", parent_uri="at://x"),
        post(created_at=datetime(1185, 1, 1, tzinfo=UTC)),
        post(media_urls=("https://a.example/1", "http://127.0.0.1/2")),
        post(text=""),
        profile(followers_count=None, avatar_url=None, website="not an address"),
        follow(subject_did=ALICE),
        Thread(**EDGE, uri=f"{AT}.feed.post/1", post_count=1),
    ],
    ids=str,
)
def test_what_is_only_odd_passes(record: Record) -> None:
    assert record.problem() is None


async def test_rejects_are_kept_on_disk_with_their_reason(tmp_path: Path) -> None:
    bad = post(key="bad", like_count=-1)
    rejects = (
        Reject("post", "post: 'x' is not a DID", "x", b'{"a":\n1}', "https://a.example"),
        Reject("profile", "cut", "", b'{"a": "\xff', "https://b.example"),
        Reject("post", "surrogate '\ud800'", "\ud800", b"", ""),
    )
    batch = Batch([post(), bad], rejects)
    passed, counted, written = await _validated(tmp_path, batch)
    assert passed == Batch([post()])
    assert all(datetime.fromisoformat(line.pop("rejected_at")).tzinfo for line in written)
    expected = [
        {"kind": "post", "key": "x", "reason": rejects[0].reason, "url": "https://a.example", "raw": {"a": 1}},
        {"kind": "post", "key": "?", "reason": "surrogate '?'", "url": "", "raw": ""},
        {
            "kind": "post",
            "key": bad.key,
            "reason": "like_count is negative",
            "url": PAGE.url,
            "raw": msgspec.json.decode(bad.raw),
        },
        {"kind": "profile", "key": "", "reason": "cut", "url": "https://b.example", "raw": '{"a": "\xff'}
        | {"raw_encoding": "latin-1"},
    ]
    assert written == expected
    assert {path.relative_to(tmp_path).parts[0] for path in _segments(tmp_path)} == {"post", "profile"}
    assert {name: count for name, count in counted.items() if "records" in name} == {
        "records/parsed/post": 4,
        "records/parsed/profile": 1,
        "records/rejected/post": 3,
        "records/rejected/post/is_not_a_did": 1,
        "records/rejected/post/surrogate": 1,
        "records/rejected/post/like_count_is_negative": 1,
        "records/rejected/profile": 1,
        "records/rejected/profile/cut": 1,
    }


def test_reasons_that_differ_only_in_values_count_as_one() -> None:
    def of(reason: str) -> str:
        return slug(Reject("post", reason, "", b"", ""))

    assert of("post: 'did:x' is not a DID") == of('post: "it\'s" is not a DID') == "is_not_a_did"
    assert of("Expected `str`, got `int` - at `$.facets[3]`") == of("Expected `str`, got `int` - at `$.facets[12]`")
    assert of("") == of("'value' 12") == "unknown"
    assert "/" not in of("a/b/c")


async def test_of_two_records_with_one_key_the_last_stays(tmp_path: Path) -> None:
    records: list[Record] = [post(like_count=1), follow(), post(like_count=2), follow(subject_did="did:plc:x")]
    passed, counted, written = await _validated(tmp_path, Batch(records))
    assert passed.records == [records[2], records[1], records[3]]
    assert counted["records/parsed/post"] == 2
    assert counted["records/repeated/post"] == 1
    assert written == []


async def test_of_two_versions_with_one_key_the_later_stays(tmp_path: Path) -> None:
    early, late = (repost(str(day), datetime(2025, 1, day, tzinfo=UTC)) for day in (1, 2))
    for first, second in ((early, late), (late, early)):
        passed, _, _ = await _validated(tmp_path, Batch([first, second]))
        assert passed.records == [late]


async def test_of_two_observations_with_one_key_the_newer_stays(tmp_path: Path) -> None:
    """As staged lines are read again: in the order in which they were written."""
    newer = msgspec.structs.replace(PAGE, fetched_at=PAGE.fetched_at + timedelta(seconds=1))
    for first, second in ((newer, PAGE), (PAGE, newer)):
        records: list[Record] = [profile(provenance=first), profile(provenance=second)]
        passed, _, _ = await _validated(tmp_path, Batch(records))
        assert [record.provenance for record in passed.records] == [newer]


async def test_coverage_counts_the_records_that_have_a_field(tmp_path: Path) -> None:
    records: list[Record] = [
        profile(followers_count=0, display_name="Alice"),
        profile("did:plc:b", display_name=""),
        profile("did:plc:c", followers_count=-1),
    ]
    _, counted, _ = await _validated(tmp_path, Batch(records))
    covered = {name.rpartition("/")[2]: count for name, count in counted.items() if name.startswith("coverage/profile")}
    assert covered == {"handle": 2, "display_name": 1, "followers_count": 1}


async def test_what_a_site_says_does_nothing_to_the_terminal_that_shows_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Reject("post", "it says \x1b[2J\nERROR: all is lost", "\x1b]0;mine\x07\ud800", b"{}", PAGE.url)
    with caplog.at_level(logging.WARNING):
        await _validated(tmp_path, Batch([], (odd,)))
    (line,) = [record.message for record in caplog.records]
    assert r"post: it says \x1b[2J\nERROR: all is lost (\x1b]0;mine\x07\ud800)." in line


async def test_the_log_names_each_reason_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad = [post(key=str(number), like_count=-1) for number in range(5)]
    with caplog.at_level(logging.WARNING):
        await _validated(tmp_path, Batch([*bad, post(key="x", root_uri="at://x")]))
    [first, second] = caplog.messages
    assert "like_count" in first
    assert ("root_uri" in second, "parent_uri" in second) == (True, True)
