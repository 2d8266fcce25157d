"""What callbacks yield about items is checked where it is constructed: a page's whole batch is written at once."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import bson
import pytest

from harvester.exceptions import InvalidRecordError
from harvester.items import Found, ItemResult, Looked, Stage
from harvester.items.found import MOST_INPUT_BYTES, MOST_LEFT_BYTES, MOST_LEVELS


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("kind", "key", "given", "said"),
    [
        ("", "a", {}, "kind"),
        ("Page", "a", {}, "kind"),
        ("a:b", "a", {}, "kind"),
        ("x" * 51, "a", {}, "kind"),
        ("page", "", {}, "key"),
        ("page", "\ud800", {}, "key"),
        ("page", "a", {"text": "x" * MOST_INPUT_BYTES}, "65,"),
        ("page", "a", {"number": 2**63}, "MongoDB"),
        ("page", "a", {1: "a"}, "MongoDB"),
        ("page", "a", {"text": "\ud800"}, "MongoDB"),
        ("page", "a", {"text": {1, 2}}, "JSON"),
        ("page", "a", {"text": b"x"}, "JSON"),
        ("page", "a", {"numbers": [{"price": float("nan")}]}, "JSON"),
        ("page", "a", {"number": float("inf")}, "JSON"),
        ("page", "a", nested(MOST_LEVELS), "levels"),
        ("page", "a", nested(100_000), "levels"),
    ],
)
def test_what_cannot_be_an_item_is_refused(kind: str, key: str, given: dict[Any, Any], said: str) -> None:
    with pytest.raises(InvalidRecordError, match=said):
        Found(kind, key, given)


def test_what_is_just_small_enough_is_taken() -> None:
    size = MOST_INPUT_BYTES - len(bson.encode({"text": ""}))
    Found("page", "é" * 1000, {"text": "x" * size})
    Found("p_2", "a", nested(MOST_LEVELS - 1))


def test_no_item_ends_in_a_state_that_is_no_end() -> None:
    with pytest.raises(InvalidRecordError, match="'active'"):
        ItemResult("id", "active", "ok")


def test_an_item_that_waits_says_until_when_and_no_other_does() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert ItemResult("id", "waiting", "rate_limited", "used up", at).until == at
    for state, until in (("waiting", None), ("done", at)):
        with pytest.raises(InvalidRecordError, match="until"):
            ItemResult("id", state, "ok", until=until)


def test_what_is_said_of_an_item_can_be_written_down() -> None:
    for outcome, reason in (("\ud800", ""), ("gone", "it says \udfff")):
        with pytest.raises(InvalidRecordError, match="UTF-8"):
            ItemResult("id", "failed", outcome, reason)


@pytest.mark.parametrize(
    "say",
    [
        lambda: Found("page", "a", depth=2**63),
        lambda: Found("page", "a", priority=-(2**63) - 1),
        lambda: Found("page", "a", line=2**63),
        lambda: Stage("id", "\ud800"),
        lambda: Stage("id", "read", 2**63),
        lambda: Looked("id", 2**63),
        lambda: Looked("id", left={"cursor": 2**63}),
        lambda: Looked("id", left={"cursor": "\ud800"}),
        lambda: Looked("id", left={"cursor": b"x"}),
        lambda: Looked("id", left=nested(MOST_LEVELS)),
        lambda: Looked("id", left={"seen": "x" * MOST_LEFT_BYTES}),
    ],
)
def test_what_mongodb_cannot_hold_is_refused_where_it_is_said(say: Callable[[], object]) -> None:
    with pytest.raises(InvalidRecordError):
        say()
