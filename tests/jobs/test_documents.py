"""Ids and documents of jobs and items."""

from datetime import UTC, datetime

from msgspec.structs import replace

from harvester.jobs.documents import (
    MOST_KEY_BYTES,
    Counted,
    EndedAttempt,
    Item,
    ItemState,
    Job,
    JobState,
    RetryPolicy,
    SavedResult,
    item_id,
    read_item,
    read_job,
    to_document,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_item_has_the_same_id_whoever_adds_it_and_a_long_key_stays_whole_in_the_item() -> None:
    assert item_id("flat-0123abcd", "page", "a:b") == "flat-0123abcd:page:a:b"
    just, long = "é" * (MOST_KEY_BYTES // 2), "é" * (MOST_KEY_BYTES // 2) + "x"
    assert item_id("job", "page", just).endswith(just)
    assert len(item_id("job", "page", long)) == len("job:page:") + 64
    assert item_id("job", "page", long) == item_id("job", "page", long) != item_id("job", "page", long + "x")


def test_documents_say_only_what_is_known_and_are_read_back_as_they_were() -> None:
    new = Item(id="i", job="j", kind="page", key="k", created_at=AT, updated_at=AT)
    names = {"_id": "i", "job": "j", "kind": "page", "key": "k", "state": "waiting"}
    numbers = dict.fromkeys(("depth", "priority", "attempts", "failures"), 0)
    assert to_document(new) == names | numbers | {"created_at": AT, "updated_at": AT}
    worked_on = replace(
        new,
        input={"url": "https://example.com/"},
        line=3,
        state=ItemState.ACTIVE,
        said=SavedResult(2, ItemState.DONE, "ok"),
        history=(EndedAttempt(1, AT, ItemState.WAITING, "timeout", "late", 1, 2),),
        due_at=AT,
        number=7,
        counts={"requests": 1},
    )
    job = Job(id="j", spider="flat", scope="s", number=1, created_at=AT)
    cancelled = replace(
        job,
        state=JobState.CANCELLED,
        attempts=5,
        counts=(Counted("page", ItemState.DONE, "", "ok", 2),),
        limits={"page": 3},
    )
    assert [read_item(to_document(each)) for each in (new, worked_on)] == [new, worked_on]
    assert [read_job(to_document(each)) for each in (job, cancelled)] == [job, cancelled]
    assert job.policy == RetryPolicy()
    assert cancelled.policy == RetryPolicy(attempts=5, cancelled=True)
