"""A look at a list misses nothing that is new, and reads at most one page more than what is new fills."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harvester.recheck.stopping import (
    MARKED,
    MOST_STUCK,
    Ending,
    ListedPage,
    ListEntry,
    ListRule,
    Mark,
    Pages,
    Position,
    VisitProgress,
    begun_anew,
    look_of,
    mark_after,
    mark_of,
    may_have_missed,
    step,
    to_data,
)
from tests.recheck.lists import SimulatedList, read

Change = Callable[[SimulatedList], object]


class Kind(NamedTuple):
    """A list of 40 entries that was read once, what happens then, and which entries the next look has to see."""

    before: Change
    """Before the second look."""
    new: set[str]
    pages: int
    """Into which what is new reaches, at the least 1. The second look reads at most one more."""
    during: Mapping[int, Change] = MappingProxyType({})
    """Page of the second look -> what happens after it was read."""
    of: SimulatedList | None = None
    first: Change = lambda of: None
    """Before the first look."""
    rule: ListRule | None = None


def nothing(of: SimulatedList) -> None:
    pass


KINDS: dict[str, Callable[[], Kind]] = {
    "nothing is new": lambda: Kind(nothing, set(), 1),
    "one is new": lambda: Kind(lambda of: of.add("a"), {"a"}, 1),
    "a page is new": lambda: Kind(lambda of: of.fill(5, "new"), {f"new{n}" for n in range(5)}, 1),
    "pages are new": lambda: Kind(lambda of: of.fill(13, "new"), {f"new{n}" for n in range(13)}, 3),
    "pinned": lambda: Kind(lambda of: of.add("a"), {"a"}, 1, first=lambda of: of.pin("old3", "old9")),
    "pinned since": lambda: Kind(lambda of: of.pin("old0", "old1").add("a", "b"), {"a", "b"}, 1),
    "unpinned since": lambda: Kind(
        lambda of: of.delete("old3").add("a"), {"a"}, 1, first=lambda of: of.pin("old3"), rule=ListRule(in_a_row=1)
    ),
    "pinned without a sign": lambda: Kind(
        lambda of: of.add("a", "b"),
        {"a", "b"},
        1,
        of=SimulatedList(flags=False),
        first=lambda of: of.pin("old3", "old9"),
    ),
    "pinned without a sign or time, a page full of them": lambda: Kind(
        lambda of: of.add("a"),
        {"a"},
        2,
        of=SimulatedList(size=2, flags=False, dated=False),
        first=lambda of: of.pin("old3", "old9"),
    ),
    "pinned, and one entry ends a look": lambda: Kind(
        lambda of: of.add("a"), {"a"}, 1, first=lambda of: of.pin("old3"), rule=ListRule(in_a_row=1)
    ),
    "all of the first page pinned": lambda: Kind(
        lambda of: of.add("a"), {"a"}, 2, first=lambda of: of.pin("old1", "old2", "old3", "old4", "old5")
    ),
    "edited where they stand": lambda: Kind(lambda of: of.edit("old38").add("a"), {"a", "old38"}, 1),
    "edited far below": lambda: Kind(lambda of: of.edit("old2").add("a"), {"a"}, 1),
    "all edited where they stand": lambda: Kind(lambda of: of.edit(*of.keys()), {f"old{n}" for n in range(40)}, 8),
    "edited, and at the top again": lambda: Kind(
        lambda of: of.add("a").bump("old1", "old2", "old3", "old4", "old5"),
        {"a", "old1", "old2", "old3", "old4", "old5"},
        2,
    ),
    "edited, and at the top again, when one entry ends a look": lambda: Kind(
        lambda of: of.add("a").bump("old1"), {"a", "old1"}, 1, rule=ListRule(in_a_row=1)
    ),
    "edited between, and at the top again without a sign": lambda: Kind(
        lambda of: of.add("a", "b", "c", "d").bump("old1", "old2"),
        {"a", "b", "c", "d"},
        2,
        of=SimulatedList(dated=False),
    ),
    "two changed places": lambda: Kind(lambda of: of.swap(0, 2).add("a"), {"a"}, 1),
    "all are in another order": lambda: Kind(
        lambda of: of.add("a").lines.reverse(), {"a"}, 8, rule=ListRule(in_a_row=0)
    ),
    "made public later, among those that were seen": lambda: Kind(lambda of: of.add("a", place=3, at=37), {"a"}, 1),
    "made public later, hours back": lambda: Kind(
        lambda of: of.add("a", place=8, at=32), {"a"}, 2, rule=ListRule(overlap=timedelta(hours=9))
    ),
    "the newest are gone": lambda: Kind(lambda of: of.delete("old39", "old38", "old37").add("a"), {"a"}, 1),
    "all that the look before saw of the first page are gone": lambda: Kind(
        lambda of: of.delete(*of.keys()[:5]).fill(4, "new"), {f"new{n}" for n in range(4)}, 1
    ),
    "deleted between two pages": lambda: Kind(
        lambda of: of.fill(12, "new"), {f"new{n}" for n in range(12)}, 3, {1: lambda of: of.delete("new11")}
    ),
    "deleted between two pages, of which the cursor speaks": lambda: Kind(
        lambda of: of.fill(12, "new"), {f"new{n}" for n in range(12)}, 3, {1: lambda of: of.delete("new7")}
    ),
    "deleted between two pages with offsets": lambda: Kind(
        lambda of: of.fill(8, "new"),
        {f"new{n}" for n in range(8)},
        3,
        {1: lambda of: of.delete("new7", "new6")},
        SimulatedList("offset"),
    ),
    "deleted between two pages with numbers": lambda: Kind(
        lambda of: of.fill(7, "new"),
        {f"new{n}" for n in range(7)},
        3,
        {1: lambda of: of.delete("new6")},
        SimulatedList("page"),
    ),
    "new ones between two pages": lambda: Kind(
        lambda of: of.fill(12, "new"), {f"new{n}" for n in range(12)}, 3, {1: lambda of: of.add("a", "b")}
    ),
    "new ones between two pages with offsets": lambda: Kind(
        lambda of: of.fill(8, "new"),
        {f"new{n}" for n in range(8)},
        3,
        {1: lambda of: of.add("a", "b")},
        SimulatedList("offset"),
    ),
    "new ones between two pages with numbers": lambda: Kind(
        lambda of: of.fill(8, "new"),
        {f"new{n}" for n in range(8)},
        3,
        {1: lambda of: of.add("a", "b")},
        SimulatedList("page"),
    ),
    "a whole page of new ones between two pages with numbers": lambda: Kind(
        lambda of: of.fill(8, "new"),
        {f"new{n}" for n in range(8)},
        3,
        {1: lambda of: of.fill(5, "later")},
        SimulatedList("page"),
    ),
    "new ones and deleted ones between two pages with numbers": lambda: Kind(
        lambda of: of.fill(7, "new"),
        {f"new{n}" for n in range(7)},
        2,
        {1: lambda of: of.delete("new6").add("a")},
        SimulatedList("page"),
    ),
    "fewer than end a look were there before": lambda: Kind(
        lambda of: of.add("a"), {"a"}, 1, first=lambda of: of.delete(*of.keys()[2:])
    ),
    "the list was empty before": lambda: Kind(lambda of: of.add("a"), {"a"}, 1, first=lambda of: of.delete(*of.keys())),
    "the list is empty now": lambda: Kind(lambda of: of.delete(*of.keys()), set(), 1),
    "one to a page": lambda: Kind(
        lambda of: of.add("a", "b"), {"a", "b"}, 2, of=SimulatedList(size=1), rule=ListRule(in_a_row=1)
    ),
    "entries of the same time": lambda: Kind(
        lambda of: of.add("a", "b", at=40), {"a", "b"}, 1, rule=ListRule(in_a_row=1)
    ),
}
"""How lists look when they are looked at again."""


@pytest.mark.parametrize("name", KINDS)
def test_nothing_new_is_missed_and_no_more_than_one_page_too_many_is_read(name: str) -> None:
    kind = KINDS[name]()
    of = kind.of or SimulatedList()
    of.fill(40)
    kind.first(of)
    rule = kind.rule or ListRule()
    before = read(of, rule=rule)
    assert before.seen == set(of.keys())
    kind.before(of)
    looked = read(of, before.mark, rule, between=lambda page: kind.during.get(page, nothing)(of))
    assert looked.ending is Ending.WHOLE
    assert kind.new <= looked.seen
    assert looked.pages <= kind.pages + 1
    again = read(of, looked.mark, rule)
    assert again.pages <= (3 if rule.overlap else 2) or rule.in_a_row == 0
    assert again.seen <= {"a", "b", *(f"later{n}" for n in range(5))}, "nothing is new, but what came meanwhile"


def test_there_are_thirty_kinds_of_lists() -> None:
    assert len(KINDS) >= 30


def test_a_look_that_died_leaves_no_hole() -> None:
    of = SimulatedList().fill(40)
    whole = read(of)
    of.fill(20, "new")
    died = read(of, whole.mark, dies_after=2)
    assert died.mark == whole.mark
    of.add("later")
    mended = read(of, died.mark)
    assert {f"new{n}" for n in range(20)} - died.seen <= mended.seen
    assert {"later", *(f"new{n}" for n in range(20))} == mended.seen


Event = tuple[str, int]
EVENTS = st.lists(st.tuples(st.sampled_from(["add", "add", "edit", "bump", "delete"]), st.integers(0, 30)), max_size=8)


def happen(of: SimulatedList, events: list[Event]) -> None:
    for what, number in events:
        if what == "add":
            of.add(f"n{of.clock}")
        elif of.lines:
            getattr(of, what)(of.keys()[number % len(of.lines)])


@settings(max_examples=50)
@given(
    st.sampled_from(["cursor", "offset"]),
    st.integers(2, 6),
    st.lists(st.tuples(EVENTS, EVENTS, st.integers(1, 4), st.booleans()), max_size=6),
)
@example("cursor", 2, [([("add", 0), ("add", 0), ("add", 0)], [("bump", 2)], 1, False)])
def test_whatever_happens_every_entry_that_stays_is_seen_by_the_next_whole_look(
    pages: Pages, size: int, history: list[tuple[list[Event], list[Event], int, bool]]
) -> None:
    """Looks die anywhere; entries come, go, are edited and come to the top again, also while a page is read.

    One that comes to the top behind the back of a look stays from then on. A look that is cut short, since the entry
    that a cursor means has moved, says so.
    """
    of = SimulatedList(pages, size).fill(12)
    looked, seen = read(of), set(of.keys())
    for before, during, after_page, dies in history:
        happen(of, before)
        there = {(line.key, line.at) for line in of.lines}

        def between(page: int, during: list[Event] = during, after_page: int = after_page) -> None:
            if page == after_page:
                happen(of, during)

        looked = read(of, looked.mark, between=between, dies_after=after_page if dies else 400)
        seen |= looked.seen
        if looked.ending is Ending.WHOLE:
            assert {line.key for line in of.lines if (line.key, line.at) in there} <= seen
        else:
            assert dies or "already" in looked.why
    final = read(of, looked.mark)
    assert final.ending is Ending.WHOLE
    assert set(of.keys()) <= seen | final.seen


# Lists that lead nowhere -----------------------------------------------------------------------------------


def test_a_cursor_that_comes_twice_ends_a_look_and_leaves_the_mark() -> None:
    of = SimulatedList().fill(40)
    whole = read(of)
    of.fill(20, "new")

    def page_of(asked_with: Position) -> ListedPage:
        page = of.page(asked_with)
        return page._replace(next=asked_with or page.next)

    looked = read(of, whole.mark, page_of=page_of)
    assert (looked.ending, looked.pages, looked.mark) == (Ending.CUT_SHORT, 2, whole.mark)
    assert "already" in looked.why


def test_a_list_that_goes_in_a_circle_ends_a_look() -> None:
    """The third page leads to the second."""
    shown: dict[Position, ListedPage] = {
        None: ListedPage([ListEntry("a")], "1"),
        "1": ListedPage([ListEntry("b")], "2"),
        "2": ListedPage([ListEntry("c")], "1"),
    }
    assert read(SimulatedList(), page_of=shown.__getitem__)[1:3] == (3, Ending.CUT_SHORT)


def test_an_empty_page_with_a_cursor_is_not_the_end() -> None:
    of = SimulatedList().fill(12)
    hidden = of.page(None).next
    looked = read(of, page_of=lambda at: of.page(at)._replace(entries=()) if at == hidden else of.page(at))
    assert (looked.ending, looked.pages) == (Ending.WHOLE, 3)
    assert looked.seen == {*of.keys()[:5], *of.keys()[10:]}


def test_an_empty_page_with_the_cursor_that_it_was_asked_with_is_the_end() -> None:
    of = SimulatedList().fill(3)
    looked = read(of, page_of=lambda at: ListedPage((), "end") if at else of.page(None)._replace(next="end"))
    assert looked[1:3] == (2, Ending.WHOLE)


def test_ever_new_cursors_that_show_nothing_new_end_a_look() -> None:
    of, number = SimulatedList().fill(3), iter(range(1000))
    looked = read(of, page_of=lambda at: of.page(None)._replace(next=f"c{next(number)}"))
    assert (looked.ending, looked.pages) == (Ending.CUT_SHORT, 1 + MOST_STUCK)


def test_a_server_that_shows_its_last_page_for_ever_has_been_read_to_its_end() -> None:
    of = SimulatedList("page").fill(12)
    looked = read(of, page_of=lambda at: of.page(min(int(at or 1), 3))._replace(next=int(at or 1) + 1))
    assert (looked.ending, looked.seen) == (Ending.WHOLE, set(of.keys()))


def test_a_list_of_which_everything_moves_all_the_time_ends_all_the_same() -> None:
    of = SimulatedList("offset", size=3).fill(30)
    looked = read(of, between=lambda page: of.delete(*of.keys()[:3]))
    assert looked.ending is Ending.WHOLE


def test_a_refused_cursor_begins_the_look_anew_with_the_old_mark() -> None:
    look = step(VisitProgress(Mark({"a": ""})), ListedPage([ListEntry("x")], "c"), None, ListRule()).look
    assert begun_anew(look) == VisitProgress(Mark({"a": ""}), anew=True, pages=1)


# What is carried along -------------------------------------------------------------------------------------


def test_a_mark_stays_small_and_travels_as_plain_values() -> None:
    of = SimulatedList(size=50).fill(1000)
    looked = read(of)
    assert len(looked.mark.seen) == MARKED
    assert mark_of(to_data(looked.mark)) == looked.mark
    look = step(VisitProgress(looked.mark), of.page(None), None, ListRule(in_a_row=0)).look
    assert look_of(to_data(look)) == look


@pytest.mark.parametrize("at", [datetime.min, datetime.max])
@pytest.mark.parametrize("overlap", [timedelta(0), timedelta(days=1)])
def test_an_entry_may_be_of_the_first_day_of_the_calendar_or_its_last(at: datetime, overlap: timedelta) -> None:
    """9999-12-31T23:59:59.9999999Z is what .NET writes for never."""
    at = at.replace(tzinfo=UTC)
    page = ListedPage([ListEntry(f"{number}", "1", at) for number in range(3)], next="more")
    looked = step(VisitProgress(), page, None, ListRule(overlap=overlap)).look
    again = step(VisitProgress(mark_after(looked)), page, None, ListRule(overlap=overlap))
    assert (again.fresh, again.ending) == ([], None if overlap else Ending.WHOLE)


def test_what_the_look_before_knew_stays_below_what_this_one_saw() -> None:
    of = SimulatedList(size=5).fill(40)
    first = read(of)
    of.add("a")
    second = read(of, first.mark)
    assert len(second.mark.seen) == 41
    assert [*second.mark.seen][5:] == [*first.mark.seen][4:]
    assert mark_after(VisitProgress(first.mark)) == first.mark


def _window(*numbers: int) -> list[ListEntry]:
    """Entries of a feed, each an hour younger than the one with the number before."""
    about = ListEntry("about the feed", "v", pinned=True)
    return [about, *(ListEntry(f"e{n}", "v", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n)) for n in numbers)]


@pytest.mark.parametrize(
    ("before", "now", "missed"),
    [
        ([3, 2, 1], [6, 5, 4], True),
        ([3, 2, 1], [5, 4, 3], False),
        ([3, 2, 1], [3, 2, 1], False),
        ([1, 3, 2], [1, 6, 5, 4], True),  # e1 is pinned
        ([1, 3, 2], [1, 5, 4, 3], False),
        ([1, 2, 3], [4, 5, 6], True),  # the oldest comes first
        ([1, 2, 3], [3, 4, 5], False),
        ([], [3, 2, 1], False),
        ([3, 2, 1], [], False),
        ([3], [4], True),
        ([9, 8, 7], [3, 9, 5, 8], False),  # in no order
    ],
)
def test_a_window_that_was_overrun_between_two_looks_is_noticed(
    before: list[int], now: list[int], missed: bool
) -> None:
    read = step(VisitProgress(), ListedPage(_window(*before)), None, ListRule()).look
    assert may_have_missed(mark_after(read), _window(*now)) is missed


def test_what_was_never_looked_at_has_missed_nothing() -> None:
    assert not may_have_missed(Mark(), _window(1))
