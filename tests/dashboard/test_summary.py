"""The end of a run in words, from made-up stats."""

import io
import re
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from pydantic import SecretStr
from rich.console import Console

import harvester.items.bluesky  # noqa: F401  the kinds of records that the stats speak of
from harvester.config import Config, load_config
from harvester.dashboard.panel import records_listed
from harvester.dashboard.summary import (
    AT_ITS_END,
    ENDINGS,
    INCOMPLETE,
    JUDGED,
    NOT_CONTINUED,
    OPENED_BY,
    UP_TO_DATE,
    ResultPlaces,
    Summary,
    show,
    summarise,
)
from harvester.exceptions import ServiceError, SessionError, StateGone, StorageError, UsageError
from harvester.items.other import item_type
from harvester.masking import mask
from harvester.shutdown import CAUSE, ENDED_BY, EXIT_CODE
from tests.dashboard.test_progress import STATS

COMMAND = "scrapy crawl bluesky -a seeds=@accounts.txt -a 'collect=graph,profiles,posts'"
PLACES = ResultPlaces("harvester", "mongodb://db.example:27017", "data/staging/bluesky", "data/images")
FINISHED: dict[str, Any] = {
    "harvester/job": "bluesky-3f9a1c-1",
    "harvester/items/account/done": 1204,
    "harvester/stages/account/posts_collected": 1204,
    "harvester/pages": 3401,
    "harvester/records/stored/follow": 80_200,
    "harvester/records/stored/list_item": 12,
    "harvester/verdict": "passed",
    "harvester/job_finished": True,
    "finish_reason": "finished",
    "elapsed_time_seconds": 312.5,
}


def rows(summary: Summary) -> dict[str, str]:
    return dict([*summary.collected, *summary.missing, *summary.places])


def counts_in(said: str) -> tuple[int, dict[str, int]]:
    """The number of a row such as `12: 9 max items, 3 opt out`, and the numbers of its parts."""
    total, _, rest = said.partition(": ")
    parts = re.findall(r"(?:^|[,;] )(\d[\d,]*) ([^,;]+)", rest)
    return int(total.replace(",", "")), {name: int(number.replace(",", "")) for number, name in parts}


def printed(summary: Summary, width: int = 80, terminal: bool = False) -> str:
    file = io.StringIO()
    show(summary, Console(file=file, width=width, force_terminal=terminal))
    return file.getvalue()


def test_a_good_run_says_so_and_asks_for_nothing() -> None:
    summary = summarise(FINISHED, PLACES, COMMAND)
    for named in ("bluesky-3f9a1c-1", "3,401 pages", "5 min 12 s", "10.9 pages/s", "257 records/s"):
        assert named in summary.title
    assert summary.mood == "good"
    assert summary.missing == []
    assert summary.command is None
    assert rows(summary)["accounts"] == "1,204 of 1,204"
    assert rows(summary)["new records"] == "80,200 follows, 12 list items"
    for named in ("harvester", "mongodb://db.example:27017", "follows, list_items"):
        assert named in rows(summary)["MongoDB"]


def test_items_that_are_worked_off_are_no_share_of_something() -> None:
    states = {"done": 45, "failed": 3, "skipped": 35}
    stats = FINISHED | {f"harvester/items/account/{state}": count for state, count in states.items()}
    assert rows(summarise(stats, PLACES, COMMAND))["accounts"] == "45 done, 3 failed, 35 skipped"
    left = stats | {"harvester/items/account/waiting": 1}
    assert rows(summarise(left, PLACES, COMMAND))["accounts"].startswith("45 of 84")


def test_labels_that_nobody_reads_are_told_with_how_often_they_came() -> None:
    unread = {"harvester/unread_labels/Flood Zone": 1, "harvester/unread_labels/Land Sq Ft": 300}
    told = rows(summarise(FINISHED | unread, PLACES, COMMAND))["labels nobody reads"]
    assert told.startswith("'Land Sq Ft' 300 times, 'Flood Zone' once;")
    assert "labels nobody reads" not in rows(summarise(FINISHED, PLACES, COMMAND))


def test_what_was_seen_again_is_what_an_earlier_run_stored() -> None:
    twice = FINISHED | {"harvester/records/known/follow": 200}
    found = rows(summarise(twice, PLACES, COMMAND))
    assert found["new records"] == "80,000 follows, 12 list items"
    assert "seen again" not in found
    earlier = summarise(twice | {"harvester/records/seen_again/follow": 150}, PLACES, COMMAND)
    assert rows(earlier)["seen again"] == "150 follows"
    assert rows(earlier)["new records"] == "80,000 follows, 12 list items"
    assert re.findall(r"[\d.]+ (?:pages|records)/s", earlier.title) == ["10.9 pages/s", "257 records/s"]


def test_what_was_taken_back_is_no_more_collected() -> None:
    """The numbers are those of the database at the end: an account may be known to refuse when its posts are stored."""
    removed = {"harvester/consent/removed/follow": 200, "harvester/consent/removed/picture": 4}
    found = dict(summarise(FINISHED | removed | {"harvester/images/stored": 10}, PLACES, COMMAND).collected)
    assert found["new records"] == "80,000 follows, 12 list items"
    assert found["images"] == "6 stored"


def test_a_run_without_a_contact_says_so_in_its_last_lines() -> None:
    summary = summarise(FINISHED | {"harvester/no_contact": 1, "finish_reason": "shutdown"}, PLACES, COMMAND)
    text = printed(summary)
    assert text.count("HARVESTER_CONTACT") == 1
    assert text.index("HARVESTER_CONTACT") > text.index(PLACES.server)
    assert text.rstrip().endswith(COMMAND)
    assert "HARVESTER_CONTACT" not in printed(summarise(FINISHED, PLACES, COMMAND))


def test_a_later_harvest_says_what_is_gone() -> None:
    gone = {"harvester/records/gone/follow": 3, "harvester/records/gone/post": 1}
    assert rows(summarise(FINISHED | gone, PLACES, COMMAND))["gone since then"] == "3 follows, 1 post"
    assert "gone since then" not in rows(summarise(FINISHED, PLACES, COMMAND))


def test_a_run_that_leaves_dead_letters_is_not_called_complete_and_says_how_to_see_them() -> None:
    dead = {"harvester/frontier/dead/blocked": 9, "harvester/frontier/dead/not_stored": 3}
    stats = FINISHED | dead | {"harvester/records/dropped/item": 2, "harvester/records/dropped/item/seen_before": 2}
    summary = summarise(stats, replace(PLACES, spider="feeds"), COMMAND)
    assert f"bluesky-3f9a1c-1 is {AT_ITS_END}; " in summary.title
    assert "complete" not in printed(summary)
    assert summary.mood == "unfinished"
    found = rows(summary)
    assert counts_in(found["dead letters"]) == (12, {"blocked": 9, "not stored": 3})
    for command in ("harvester frontier dead feeds", "harvester frontier replay feeds --all"):
        assert command in found["dead letters"]
    assert counts_in(found["items dropped"]) == (2, {"seen before": 2})


def test_all_that_is_missing_is_listed_with_its_reason() -> None:
    stats = STATS | {
        "finish_reason": "finished",
        "harvester/verdict": "failed",
        "harvester/verdict/failures": 2,
        "harvester/reasons/account/skipped/max_items": 9,
        "harvester/reasons/account/skipped/opt_out: !no-unauthenticated": 3,
        "harvester/reasons/account/waiting/timeout": 40,
        "harvester/reasons/account/waiting/server_error: HTTP 503": 2,
        "harvester/next_due": 1_800_000_000.5,
        "harvester/items/county/failed": 4,
        "harvester/seeds/rejected": 1,
        "harvester/frontier/unserialisable": 6,
        "harvester/consent/stubbed": 5,
        "harvester/consent/dropped/post": 7,
        "harvester/consent/purged/like": 1,
        "harvester/records/rejected/post": 3,
        "harvester/records/rejected/post/bad_uri": 2,
        "harvester/records/rejected/post/no_cid": 1,
        "harvester/images/failed/not_found": 1,
        "harvester/unclassified": 1,
        "harvester/report": "data/reports/bluesky/1.html",
    }
    found = rows(summarise(stats, PLACES, COMMAND))
    assert counts_in(found["accounts failed"]) == (2, {"gone": 2})
    assert counts_in(found["accounts skipped"]) == (12, {"max items": 9, "opt out: !no-unauthenticated": 3})
    (again,) = (said for said in found.values() if "timeout" in said)
    assert counts_in(again) == (42, {"timeout": 40, "server error: HTTP 503": 2})
    assert "2027-01-15 08:00 UTC" in found["next try"]
    assert found["accounts left"] == "4,050", "those that are to be tried again are not counted twice"
    assert found["counties left"] == "20"
    assert found["counties failed"] == "4"
    assert found["accounts"].startswith("1,204 of 5,310")
    stages = dict(re.findall(r"(\w+) collected: ([\d,]*\d)", found["accounts"]))
    assert stages == {"posts": "1,204", "profile": "189"}
    assert found["counties"] == "200 of 224"
    assert found["seeds rejected"] == "1"
    assert found["requests refused"].startswith("6 ")
    assert re.findall(r"\d+ \w+", found["opted out"]) == ["5 profiles", "7 posts", "1 like"]
    assert counts_in(found["posts rejected"]) == (3, {"bad uri": 2, "no cid": 1})
    assert counts_in(found["images failed"]) == (4, {"too large": 3, "not found": 1})
    total, errors = counts_in(found["errors met"])
    at_public, at_other = "rate limited at public.api.example", "rate limited at other.example"
    assert (total, list(errors.items())[:2]) == (16, [(at_public, 10), (at_other, 4)])
    assert found["unclassified"].startswith("1 failure")
    assert found["staged records"] == "data/staging/bluesky"
    assert found["images"] == "data/images"
    assert found["report"] == "data/reports/bluesky/1.html"
    assert "2 faults" in summarise(stats, PLACES, COMMAND).title


def test_names_in_a_sentence_stay_as_they_are_typed() -> None:
    reasons = {
        "harvester/reasons/account/skipped/set HARVESTER_TOKEN": 3,
        "harvester/reasons/account/skipped/not_found: no_such.example": 1,
        "harvester/reasons/account/skipped/feed: layout_changed: a_field is gone": 1,
        "harvester/errors/server_error/my_host.example": 2,
    }
    found = rows(summarise(FINISHED | reasons | {"harvester/items/account/skipped": 5}, PLACES, COMMAND))
    own, read, missing = "set HARVESTER_TOKEN", "feed: layout changed: a_field is gone", "not found: no_such.example"
    assert counts_in(found["accounts skipped"]) == (5, {own: 3, read: 1, missing: 1})
    assert counts_in(found["errors met"]) == (2, {"server error at my_host.example": 2})


def test_many_reasons_are_cut_and_the_rest_is_counted() -> None:
    reasons = {f"harvester/reasons/account/failed/reason {n} {'x' * 200}": 10 - n for n in range(8)}
    summary = summarise({"harvester/items/account/failed": 52} | reasons, PLACES, COMMAND)
    said = rows(summary)["accounts failed"]
    assert said.startswith("52: 10 reason 0 xxx")
    assert list(counts_in(said)[1].values()) == [10, 9, 8, 7, 6, 12]
    assert len(said) < 500


@pytest.mark.parametrize("reason", [*ENDINGS, "something_new"])
def test_an_unfinished_run_says_why_and_how_to_continue(reason: str) -> None:
    summary = summarise(FINISHED | {"finish_reason": reason, EXIT_CODE: 3}, PLACES, COMMAND)
    assert (summary.command is None) == (reason in ("finished", *NOT_CONTINUED))
    assert "_" not in summary.title
    assert (summary.mood == "good") == (reason == "finished")
    assert (f"\n  {COMMAND}\n" in printed(summary)) == (reason not in ("finished", *NOT_CONTINUED))


@pytest.mark.parametrize(
    ("reason", "named"),
    [
        ("closespider_pagecount", "CLOSESPIDER_PAGECOUNT"),
        ("closespider_timeout_no_item", "CLOSESPIDER_TIMEOUT_NO_ITEM"),
        ("seen_enough", "seen enough"),
        ("cancelled", "cancelled"),
    ],
)
def test_a_run_that_reached_a_limit_says_which_and_what_is_left(reason: str, named: str) -> None:
    stats = FINISHED | {"finish_reason": reason, "harvester/verdict": "not judged"}
    summary = summarise(stats | {"harvester/frontier/left": 1200}, PLACES, COMMAND)
    assert re.match(rf"bluesky-3f9a1c-1 .*\b{named}; not judged", summary.title)
    assert (summary.mood, rows(summary)["requests left"], summary.command) == ("unfinished", "1,200", COMMAND)
    assert summarise(stats | {"harvester/frontier/left": 0}, PLACES, COMMAND).command is None


def test_a_job_whose_feeds_have_a_part_says_what_writes_all_of_it() -> None:
    part = {"finish_reason": "shutdown", "harvester/job_finished": False, "harvester/feeds/of_a_part": True}
    more = summarise(FINISHED | part, PLACES, COMMAND).more
    assert more
    assert more[1].split() == ["harvester", "jobs", "export", "bluesky-3f9a1c-1"]
    assert summarise(FINISHED | {"harvester/feeds/of_a_part": True}, PLACES, COMMAND).more is None


def test_the_last_words_are_why_and_what_to_type() -> None:
    cause = f"api.example refuses to answer ({'no ' * 40}). Wait."
    said = {"finish_reason": "blocked", CAUSE: cause}
    judged = {"harvester/verdict": "failed", JUDGED: ["Refusals: 7 of 9."], "harvester/run": "20260131-1"}
    last = printed(summarise(FINISHED | said | judged | {"harvester/report": "1.html"}, PLACES, COMMAND))
    why, _, typed = last.rpartition("\nWhy\n")[2].partition("\n\n")
    assert " ".join(why.split()) == cause.replace("  ", " ")
    commands = [line.strip() for line in typed.splitlines() if line.startswith("  ")]
    assert commands == ["harvester runs show 20260131-1", COMMAND]
    only_judged = summarise(FINISHED | judged, PLACES, COMMAND)
    assert only_judged.causes == ["Refusals: 7 of 9."], "where nothing else said why"
    assert summarise(FINISHED, PLACES, COMMAND).causes == []


def test_a_run_that_finds_all_fetched_before_says_what_to_type() -> None:
    summary = summarise(FINISHED | {"harvester/frontier/duplicates": 3}, replace(PLACES, spider="shop"), COMMAND)
    assert printed(summary).split()[-5:] == ["harvester", "frontier", "forget", "shop", "--all"]
    assert (
        summarise(FINISHED | {"harvester/frontier/duplicates": 3, "harvester/frontier/leased": 1}, PLACES, "").more
        is None
    )


def test_a_job_of_which_something_is_left_is_worth_another_run() -> None:
    summary = summarise(FINISHED | {"harvester/job_finished": False}, PLACES, COMMAND)
    assert summary.command == COMMAND
    assert f"bluesky-3f9a1c-1 is {INCOMPLETE}; " in summary.title


def test_a_standing_job_is_up_to_date_when_all_of_it_was_looked_at_and_is_continued() -> None:
    summary = summarise(FINISHED | {"harvester/next_look": 1_800_000_000.5}, PLACES, COMMAND)
    assert (f"bluesky-3f9a1c-1 is {UP_TO_DATE}; " in summary.title, summary.mood) == (True, "good")
    assert ("2027-01-15 08:00 UTC" in rows(summary)["next look"], summary.command) == (True, COMMAND)


def test_every_error_of_ours_has_words_for_its_ending() -> None:
    for error in (UsageError, ServiceError, StorageError, SessionError, StateGone):
        words = "".join(f"_{c.lower()}" if c.isupper() else c for c in error.__name__).strip("_")
        assert words in ENDINGS


def test_an_empty_run_can_be_summarised() -> None:
    summary = summarise({}, PLACES, COMMAND)
    assert (summary.mood, rows(summary)["new records"]) == ("unfinished", "none")


def test_text_is_plain_without_a_terminal_and_fits_a_narrow_one() -> None:
    summary = summarise(STATS, PLACES, COMMAND)
    plain = printed(summary)
    assert plain.isascii()
    assert "\x1b" not in plain
    assert "\x1b[" in printed(summary, terminal=True)
    whole = (COMMAND, OPENED_BY)
    assert max(len(line) for line in printed(summary, 60).splitlines() if not line.endswith(whole)) <= 60


def test_a_run_whose_servers_are_removed_while_it_closes_cannot_be_continued() -> None:
    stats = {"finish_reason": "finished", "harvester/job_finished": False}
    assert summarise(stats, PLACES, COMMAND).command == COMMAND
    assert summarise(stats | {ENDED_BY: "state_gone"}, PLACES, COMMAND).command is None


def test_addresses_and_commands_stay_on_one_line() -> None:
    long = ResultPlaces("harvester", "mongodb://" + "a" * 120, "data/staging/" + "b" * 120, "s3://" + "c" * 120)
    text = printed(summarise(STATS, long, COMMAND + " " + "d" * 120), width=60)
    for place in (long.server, long.staging, long.images, COMMAND + " " + "d" * 120):
        assert place in text


def test_places_never_show_a_password() -> None:
    config = Config(mongodb_uri=SecretStr("mongodb://ann:secret@db.example:27017/?tls=true"))
    assert ResultPlaces.of(config, "bluesky").server == "mongodb://db.example:27017/?tls=true"
    assert ".harvester" in ResultPlaces.of(Config(), "bluesky").server


def test_places_show_no_secret_among_the_options_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    options = (
        "tlsCertificateKeyFilePassword=battery%20staple&authMechanismProperties=AWS_SESSION_TOKEN:FwoGZXIv&tls=true"
    )
    monkeypatch.setenv("MONGODB_URI", f"mongodb://db.example/?{options}")
    shown = "tlsCertificateKeyFilePassword=***&authMechanismProperties=AWS_SESSION_TOKEN:***&tls=true"
    assert ResultPlaces.of(load_config(), "bluesky").server == f"mongodb://db.example/?{shown}"


def test_the_command_that_continues_shows_no_secret_that_was_typed() -> None:
    """Standard error is a log in many places."""
    mask.add("battery-staple")
    summary = summarise(STATS | {"finish_reason": "shutdown"}, PLACES, "scrapy crawl shop -a password=battery-staple")
    assert summary.command
    assert summary.command.split() == ["scrapy", "crawl", "shop", "-a", "password=***"]


def test_what_opens_the_database_is_there() -> None:
    module, _, name = OPENED_BY.partition("(")[0].rpartition(".")
    assert callable(getattr(import_module(module), name))
    assert callable(load_config)
    assert OPENED_BY.endswith("(harvester.config.load_config())")
    assert "harvester db" in rows(summarise({}, PLACES, COMMAND))["elsewhere"]


def test_an_item_of_a_spider_is_called_an_item_also_when_there_is_one() -> None:
    kind = item_type("shelf").KIND
    assert (records_listed({kind: 1}), records_listed({kind: 2})) == ("1 item", "2 items")
