"""Each monitor fails for its cause and for nothing else, and says so with numbers."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from spidermon import MonitorRunner, MonitorSuite

from harvester.config import Config
from harvester.dashboard.live import LiveView
from harvester.download.addresses import refuse_private
from harvester.monitors.history import Earlier, RunHistory
from harvester.monitors.judgement import Judged, Judgement
from harvester.monitors.suites import RunMonitors, is_repeated
from harvester.shutdown import CAUSE, EXIT_CODE
from tests.monitors.conftest import DROP, harvest
from tests.numbers import numbers_of

Stats = dict[str, Any]


def judge(stats: Stats, earlier: Earlier | None = None, resumed: bool = False) -> dict[str, Judged]:
    """What the monitors say, by name, about a finished run with these stats."""
    spider = SimpleNamespace(resumed=resumed)
    history = SimpleNamespace(earlier=earlier, of_project={"own": Judged("own", "passed", "")})
    crawler = SimpleNamespace(get_extension=lambda kind: history if kind is RunHistory else None, spider=spider)
    suite = MonitorSuite(monitors=RunMonitors.monitors)
    stats = {"finish_reason": "finished", **stats}
    result = MonitorRunner().run(suite, stats=stats, crawler=crawler, spider=spider)
    return {judged.monitor: judged for judged in Judgement.of(result).monitors}


def failures(stats: Stats, earlier: Earlier | None = None, resumed: bool = False) -> dict[str, str]:
    """Name and message of the monitors that fail."""
    said = judge(stats, earlier, resumed)
    return {name: judged.message for name, judged in said.items() if judged.status == "failed"}


def before(*counts: dict[str, int], coverage: dict[str, Any] | None = None) -> Earlier:
    """Passed runs with the same arguments, which stored so many records of each kind."""
    runs = [{"counts": count, "coverage": coverage or {}} for count in counts]
    return Earlier(runs, runs)


@pytest.mark.parametrize(
    ("extension", "settings", "stats", "expected"),
    [
        (LiveView, {}, {}, True),
        (None, {}, {}, False),  # as of a worker: the summary is of all workers
        (LiveView, {"LOG_FILE": "crawl.log"}, {}, False),
        (LiveView, {}, {CAUSE: "The service refuses."}, False),  # which the summary says instead
    ],
)
def test_what_monitors_found_is_logged_unless_the_summary_repeats_it_there(
    extension: type[LiveView] | None, settings: dict[str, str], stats: Stats, expected: bool
) -> None:
    extensions = {kind: kind for kind in (extension,) if kind}
    crawler: Any = SimpleNamespace(
        stats=SimpleNamespace(get_stats=lambda: stats),
        settings={"LOG_FILE": None, **settings},
        extensions=extensions,
        get_extension=extensions.get,
    )
    assert is_repeated(crawler) is expected


def test_a_good_run_fails_no_monitor_and_each_says_what_it_saw() -> None:
    said = judge(harvest(100), before({"post": 100}))
    assert {judged.status for judged in said.values()} == {"passed"}
    assert all(judged.message for judged in said.values())


def test_a_worker_that_found_no_work_is_not_judged_by_its_counts() -> None:
    assert "Record count" in failures({}, before({"post": 100}))
    assert failures({}, before({"post": 100}), resumed=True) == {}


@pytest.mark.parametrize("reason", ["shutdown", "closespider_itemcount", "paused", "cancelled", "enough"])
def test_a_run_that_a_person_a_limit_or_its_spider_ended_is_not_judged(reason: str) -> None:
    assert {judged.status for judged in judge({"finish_reason": reason}).values()} == {"skipped"}


def test_a_run_that_ended_early_fails_and_names_the_reason_but_is_not_compared() -> None:
    said = judge({**harvest(10), "finish_reason": "storage_error", EXIT_CODE: 4}, before({"post": 100}))
    assert "'storage_error'" in said["Finish reason"].message
    assert said["Finish reason"].status == "failed"
    assert said[DROP].status == "skipped"


def test_too_few_records_fail_unless_the_run_continued_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_MIN_RECORDS", "11")
    assert numbers_of(failures(harvest(10))["Record count"])[:2] == [10, 11]
    assert failures(harvest(11)) == {}
    assert failures(harvest(10), resumed=True) == {}


def test_a_run_is_judged_by_the_records_of_its_own_job_not_by_what_it_stored_for_others() -> None:
    said = failures({**harvest(100), "harvester/job_records": 0})
    assert numbers_of(said["Record count"])[:2] == [0, 1]
    assert "Record count" in failures({"harvester/job_records": 0}, resumed=True)
    assert failures({"harvester/job_records": 1}, resumed=True) == {}


@pytest.mark.parametrize(("stored", "fails"), [(61, False), (60, False), (59, True), (0, True)])
def test_a_drop_fails_beyond_the_allowed_ratio_of_the_median(stored: int, fails: bool) -> None:
    earlier = before({"post": 100}, {"post": 1000}, {"post": 90})
    stats = harvest(100) | {"harvester/records/stored/post": stored}
    assert (DROP in failures(stats, earlier)) is fails


def test_a_kind_that_vanished_is_a_drop_and_a_list_less_is_not() -> None:
    earlier = before({"post": 100, "list": 2, "follow": 50})
    message = failures(harvest(100), earlier)[DROP]
    assert ("follow" in message, numbers_of(message)[1:4]) == (True, [0, 50, 100])
    assert "list" not in message


def test_without_history_the_comparisons_are_skipped_and_say_why() -> None:
    reasons = []
    for earlier in (None, Earlier([], [])):
        said = judge(harvest(100), earlier)
        compared = (said[DROP], said["Lost fields"])
        assert {each.status for each in compared} == {"skipped"}
        assert all(each.message for each in compared)
        reasons.append({each.message for each in compared})
    assert not reasons[0] & reasons[1]


def test_a_required_field_that_one_record_lacks_fails() -> None:
    stats = {"harvester/records/parsed/follow": 1000, "harvester/records/stored/follow": 1000}
    message = failures(stats)["Required fields"]
    assert ("follow.subject_did" in message, numbers_of(message)[:2]) == (True, [0, 1000])
    assert 99.9 in numbers_of(failures({**stats, "harvester/coverage/follow/subject_did": 999})["Required fields"])
    assert failures({**stats, "harvester/coverage/follow/subject_did": 1000}) == {}


def test_records_that_were_not_stored_do_not_count_against_coverage() -> None:
    stats = {
        "harvester/records/parsed/follow": 1000,
        "harvester/records/rejected/follow": 10,
        "harvester/records/stored/follow": 900,
        "harvester/coverage/follow/subject_did": 900,
    }
    assert failures(stats) == {}


@pytest.mark.parametrize(("share", "fails"), [(0.75, False), (0.65, True), (0.0, True)])
def test_a_field_that_lost_over_thirty_points_fails(share: float, fails: bool) -> None:
    earlier = before({"post": 100}, coverage={"post": {"like_count": 1.0, "text": 0.9, "created_at": 1.0}})
    assert ("Lost fields" in failures(harvest(100, like_count=share), earlier)) is fails


def test_a_field_is_not_compared_over_a_handful_of_records() -> None:
    earlier = before({"post": 10}, coverage={"post": {"like_count": 1.0}})
    assert failures(harvest(10, like_count=0), earlier) == {}


def test_fields_are_compared_with_other_arguments_only_when_there_is_nothing_nearer() -> None:
    like = [{"counts": {}, "coverage": {"post": {"like_count": 0.1}}}]
    other = [{"counts": {}, "coverage": {"post": {"like_count": 1.0}}}]
    assert failures(harvest(100, like_count=0.1), Earlier(like, other)) == {}
    assert "Lost fields" in failures(harvest(100, like_count=0.1), Earlier([], other))


@pytest.mark.parametrize(("timeouts", "fails"), [(11, False), (12, True)])
def test_too_many_errors_fail_and_absent_things_are_none(timeouts: int, fails: bool) -> None:
    stats = harvest(100) | {
        "harvester/outcomes/ok": 50,
        "harvester/outcomes/not_found": 30,
        "harvester/outcomes/gone": 10,
        "harvester/outcomes/empty": 10,
        "harvester/outcomes/timeout": timeouts,
        "harvester/errors/timeout/slow.test": timeouts,
    }
    failed = failures(stats)
    assert ("Error ratio" in failed) is fails
    if fails:
        assert ("slow.test" in failed["Error ratio"], 12 in numbers_of(failed["Error ratio"])) == (True, True)


def test_refusals_fail_and_name_host_words_and_advice() -> None:
    stats = harvest(100) | {
        "harvester/outcomes/challenge": 6,
        "harvester/errors/challenge/a.test": 4,
        "harvester/errors/challenge/b.test": 2,
        "harvester/said/challenge/a.test": "HTTP 403 with a challenge page",
    }
    message = failures(stats)["Refusals"]
    assert numbers_of(message)[:3] == [6, 106, 4]
    for part in ("a.test", "challenge", "HTTP 403 with a challenge page"):
        assert part in message
    assert message.count("HARVESTER_REQUESTS_PER_SECOND") == 1
    assert "Refusals" not in failures(stats | {"harvester/outcomes/challenge": 5})


def test_a_host_of_this_machine_is_told_by_which_variable_it_is_permitted() -> None:
    said = str(refuse_private("http://127.0.0.1:8765/", Config(allow_private_hosts=False)))
    stats = harvest(0) | {
        "harvester/outcomes/policy_denied": 6,
        "harvester/errors/policy_denied/127.0.0.1:8765": 6,
        "harvester/said/policy_denied/127.0.0.1:8765": said,
    }
    message = failures(stats)["Refusals"]
    assert "HARVESTER_PRIVATE_HOSTS=127.0.0.1:8765" in message
    assert "operator" not in message
    stats["harvester/said/policy_denied/127.0.0.1:8765"] = "robots.txt forbids it"
    assert "operator" in failures(stats)["Refusals"]


def test_requests_that_could_not_be_kept_fail_a_run_that_finished() -> None:
    stats = harvest(100) | {"harvester/frontier/unserialisable": 6}
    assert failures(stats)["Finish reason"].startswith("6 ")
    assert not failures(harvest(100))


def test_a_run_given_up_over_rate_limits_names_the_host() -> None:
    stats = {
        "finish_reason": "blocked",
        EXIT_CODE: 7,
        "harvester/outcomes/rate_limited": 9,
        "harvester/errors/rate_limited/a.test": 9,
    }
    message = failures(stats)["Refusals"]
    assert ("a.test" in message, 9 in numbers_of(message), "rate_limited" in message) == (True, True, True)


def test_rejects_fail_with_their_reasons() -> None:
    stats = harvest(100) | {
        "harvester/records/rejected/post": 3,
        "harvester/records/rejected/post/bad_date": 2,
        "harvester/records/rejected/post/no_text": 1,
    }
    message = failures(stats)["Reject ratio"]
    assert numbers_of(message)[:2] == [3, 100]
    assert re.search(r"post/bad_date\W+2\b.*post/no_text\W+1\b", message)
    assert "Reject ratio" not in failures(stats | {"harvester/records/rejected/post": 2})


def test_a_failure_that_no_rule_knew_fails() -> None:
    message = failures(harvest(100) | {"harvester/unclassified": 1})["Unclassified failures"]
    assert numbers_of(message)[0] == 1


def test_pages_of_another_layout_fail_with_what_was_found_and_new_labels_are_told() -> None:
    said = "the parcel 7, which was read before, lacks 'Total', and has 'Sum'"
    changed = {
        "harvester/outcomes/layout_changed": 10,
        "harvester/errors/layout_changed/a.test": 10,
        "harvester/said/layout_changed/a.test": said,
    }
    message = failures(harvest(300) | changed)["Changed layout"]
    assert ("a.test" in message, 10 in numbers_of(message), said in message) == (True, True, True)
    many = harvest(100) | {"harvester/outcomes/ok": 100_000} | changed
    assert "Changed layout" not in failures(many)
    assert said in failures(many | {"finish_reason": "parked", EXIT_CODE: 7})["Changed layout"]
    assert "Changed layout" not in failures(harvest(100) | changed | {"harvester/errors/layout_changed/a.test": 9})
    in_doubt = {"harvester/counties/stored_in_doubt": ["1-2", "1-3"]}
    assert "1-2, 1-3" in failures(harvest(100) | in_doubt)["Changed layout"]
    assert (
        "1-2, 1-3"
        in failures(harvest(100) | in_doubt | many | {"finish_reason": "parked", EXIT_CODE: 7})["Changed layout"]
    )
    told = judge(harvest(100) | {"harvester/new_labels": ["Flood Zone", "School"]})["Changed layout"]
    assert (told.status, "'Flood Zone', 'School'" in told.message) == ("passed", True)


def test_labels_that_nobody_reads_are_told_with_how_often_they_came() -> None:
    unread = {"harvester/unread_labels/Flood Zone": 1, "harvester/unread_labels/Land Sq/Ft": 300}
    told = judge(harvest(100) | unread)["Changed layout"]
    assert told.status == "passed"
    assert re.search(r"'Land Sq/Ft' 300\b.*'Flood Zone'", told.message)


def test_failed_items_fail_and_absent_ones_do_not() -> None:
    absent = {"harvester/items/account/failed": 90, "harvester/reasons/account/failed/not_found: no profile": 90}
    assert failures(harvest(100) | absent) == {}
    gone = {
        "harvester/items/account/failed": 90,
        "harvester/reasons/account/failed/posts: gone: AccountTakedown": 90,
    }
    assert failures(harvest(100) | gone) == {}
    note = judge(harvest(100) | gone)["Failed items"].message
    assert numbers_of(note) == [0, 100, 90]
    failed = {"harvester/items/account/failed": 3, "harvester/reasons/account/failed/posts: http://x/ 502": 2}
    message = failures(harvest(100) | failed)["Failed items"]
    assert numbers_of(message)[:2] == [3, 13]
    assert re.search(r"posts: http://x/ 502 \(2\), .* \(1\)", message)


def test_a_kind_whose_items_fail_is_not_hidden_by_another_with_more_of_them() -> None:
    few = {"harvester/items/county/done": 2, "harvester/items/county/failed": 2, "harvester/items/account/done": 1000}
    message = failures(harvest(100) | few)["Failed items"]
    assert ("counties" in message, numbers_of(message)[:3]) == (True, [2, 4, 2])


def test_items_that_wait_for_another_try_have_not_failed() -> None:
    later = {"harvester/items/account/waiting": 90, "harvester/reasons/account/waiting/timeout": 90}
    assert failures(harvest(100) | later) == {}


def test_a_monitor_that_breaks_fails_and_says_so() -> None:
    message = failures(harvest(100), Earlier([{}], [{}]))[DROP]
    assert "KeyError: 'counts'" in message
