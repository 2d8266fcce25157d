"""The base of spiders that visit lists repeatedly: a visit ends at the first entries that an earlier one saw."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.hosts import without_user
from harvester.internal_meta import CHANGED_FOR, ITEMS, PART
from harvester.items import Looked, Stage
from harvester.jobs.documents import JobItem
from harvester.meta import CHANGED_LATER, CONDITIONAL
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.recheck.stopping import (
    Ending,
    ListedPage,
    ListEntry,
    ListRule,
    Mark,
    Position,
    VisitProgress,
    begun_anew,
    following,
    look_of,
    mark_after,
    mark_of,
    may_have_missed,
    step,
    to_data,
)
from harvester.spiders.job import JobSpider, errback

CUT_SHORT = "cut_short"
"""Stage of an item whose list ended early."""
WHOLE = "whole"
"""Stage of an item whose list was read to a known entry, or to its end."""
OVERRUN = "overrun"
"""Stage of an item whose list shows only its last entries, all unknown to the previous visit."""
STAGE_RANK = 3
"""Rank of all three stages."""
MISSED = "harvester/lists/overrun"
"""Stat: visits that may have missed entries since the one before."""
CUT_FILES = "harvester/lists/cut"
"""Stat: lists whose file ended early, or was too long to be read completely."""
REPEATED = "harvester/cursors/repeated"
"""Stat: lists that led back to a page that was already read."""
MAX_TOGETHER = 500
"""Maximum number of entries whose outputs are yielded together: other requests of the worker go on in between."""
COST_UNCHANGED = 0.1
"""Cost of a visit that is answered without a body, in requests."""


class ListPage(NamedTuple):
    """A page of a list, in the form that a spider returns it."""

    entries: Sequence[ListEntry]
    outputs: Sequence[Any]
    """The output for each new or changed entry, in the order of `entries`: a record, a request, Found, or a list."""
    next: str | None = None
    """The cursor or address of the next page."""
    total: int | None = None
    """Number of entries in the whole list, if the page states it."""
    kept: Mapping[str, Any] = MappingProxyType({})
    """JSON values that the spider receives with the next page, and with the next visit."""
    is_window: bool = False
    """True if the list shows only this page, and drops older entries."""
    cut: str = ""
    """Why entries of the page are left out. The visit then ends here, and does not count as whole."""


class PagedItem(NamedTuple):
    """The item of a list, carried by the requests for its pages."""

    key: str
    input: Mapping[str, Any]


class PaginationSpider(JobSpider):
    """Base class: implement `page_request` and `read_page`. An item is a list, newest entries first.

    The first visit reads the list to its end. The state for the next visit is saved when a visit has ended well, with
    all requests that followed from its entries. So an interrupted visit leaves no gap.
    """

    reads_apart: ClassVar[frozenset[str]] = frozenset({"parse_list"})
    RULE: ClassVar[ListRule] = ListRule()
    """The rule that ends a visit."""

    @abstractmethod
    def page_request(self, of: PagedItem, at: Position) -> Request:
        """Returns the request for the page at a position; None is the first page. Callback and errback are added."""

    @abstractmethod
    async def read_page(self, response: Response, of: PagedItem, kept: Mapping[str, Any]) -> ListPage:
        """Reads a page, by `self.read`. Raises ParseError when it is not a list.

        `kept`: the values returned with the previous page, or left by the last whole visit.
        """

    def rule_of(self, of: PagedItem) -> ListRule:
        """Returns the rule that ends a visit of this list."""
        return self.RULE

    def rest_of(self, kept: Mapping[str, Any]) -> datetime | None:
        """Returns the earliest time for the next visit that the site allows, according to `kept`; None: no limit."""
        return None

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Any]:
        for item in items:
            of = PagedItem(item.key, item.input)
            rule = self.rule_of(of)
            first = None if rule.pages == "cursor" else rule.first
            look = VisitProgress(mark_of(item.left.get("mark", {})))
            request = self._ask(of, look, first, item.left.get("kept", {}))
            # An interrupted visit has read this page: an unchanged page then says nothing about later pages.
            was_whole = item.left.get("attempt") == item.attempt - 1
            request.meta.setdefault(CONDITIONAL, was_whole or CHANGED_LATER)
            yield request

    async def parse_list(
        self, response: Response, of: list[Any], look: dict[str, Any], at: Position, kept: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yields the new entries of a page, and the request for the next one or the end of the visit."""
        item = PagedItem(*of)
        listed, rule = await self.read_page(response, item, kept), self.rule_of(item)
        number = following(rule.pages, at, len(listed.entries)) if isinstance(at, int) else None
        page = ListedPage(listed.entries, listed.next if number is None else number, listed.total)
        before = look_of(look)
        taken = await asyncio.to_thread(step, before, page, at, rule)  # a page may have 100,000 entries
        for start in range(0, len(taken.fresh), MAX_TOGETHER):
            places = taken.fresh[start : start + MAX_TOGETHER]
            yield [each for place in places for each in _listed(listed.outputs[place])]
        if listed.cut:
            item_id = self.item_of(response).id
            yield cut_short(
                self, item_id, f"The list {without_user(item.key)}", f"is not whole: {listed.cut}", CUT_FILES
            )
            if at is None and not page.next:  # the cut entries are on this page, which is read again
                mark, number = mark_after(taken.look), taken.look.found
                yield self._looked(response, mark, number, taken.look.pages, listed.kept, was_whole=False)
            else:
                yield Looked(item_id, taken.look.found, cost=taken.look.pages)
        elif taken.ending is None:
            yield self._ask(item, taken.look, taken.next, listed.kept)
        elif taken.ending is Ending.WHOLE:
            yield self._looked(response, mark_after(taken.look), taken.look.found, taken.look.pages, listed.kept)
            missed = listed.is_window and may_have_missed(before.mark, listed.entries)
            if missed:
                self.crawler.stats.inc_value(MISSED)
                said = "%s shows nothing of what it showed at the last visit: entries between may be missing"
                self.logger.warning(said, without_user(item.key))
            yield Stage(self.item_of(response).id, OVERRUN if missed else WHOLE, STAGE_RANK)
        else:
            item_id = self.item_of(response).id
            yield cut_short(self, item_id, f"The list {without_user(item.key)}", taken.why)
            yield Looked(item_id, taken.look.found, cost=taken.look.pages)

    @errback
    def list_failed(self, failure: Failure) -> Iterator[Any]:
        """Ends the visit of an unchanged list. Restarts a list once when its cursor is refused."""
        request: Request = failure.request  # type: ignore[attr-defined]
        verdict, asked = verdict_of(failure.value), request.cb_kwargs  # type: ignore[arg-type]
        look = look_of(asked["look"])
        if verdict.outcome is Outcome.UNCHANGED:
            yield self._looked(request, look.mark, 0, COST_UNCHANGED, asked["kept"])
            return
        is_unknown = get_policy(verdict.outcome).absent or verdict.outcome is Outcome.INVALID
        if is_unknown and isinstance(asked["at"], str) and not look.anew:
            yield self._ask(PagedItem(*asked["of"]), begun_anew(look), None, asked["kept"])

    def _ask(self, of: PagedItem, look: VisitProgress, at: Position, kept: Mapping[str, Any]) -> Request:
        request = self.page_request(of, at).replace(
            callback=self.parse_list,
            errback=self.list_failed,
            cb_kwargs={"of": [*of], "look": to_data(look), "at": at, "kept": dict(kept)},
            dont_filter=True,
        )
        request.meta.setdefault(PART, "list")
        request.meta[CHANGED_FOR] = of.key
        return request

    def _looked(
        self,
        page: Response | Request,
        mark: Mark,
        found: int,
        cost: float,
        kept: Mapping[str, Any],
        *,
        was_whole: bool = True,
    ) -> Looked:
        ((item, attempt),) = page.meta[ITEMS]
        left = {"mark": to_data(mark), "kept": dict(kept), "attempt": attempt if was_whole else None}
        return Looked(item, found, cost=cost, left=left, not_before=self.rest_of(kept))


def cut_short(spider: JobSpider, item: str, name: str, why: str, stat: str = REPEATED) -> Stage:
    """Reports a list that ends early. `name` and `why` form a sentence: which list does what."""
    spider.logger.warning("%s %s; it ends here", name, why)
    spider.crawler.stats.inc_value(stat)
    return Stage(item, CUT_SHORT, STAGE_RANK)


def _listed(output: Any) -> list[Any]:
    return output if isinstance(output, list) else [output]
