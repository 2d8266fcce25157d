"""The base of spiders of lists that are looked at again: each look ends where it comes to what an earlier one saw."""

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
from harvester.items import Looked, Stage
from harvester.jobs.documents import JobItem
from harvester.meta import CHANGED_FOR, CHANGED_LATER, CONDITIONAL, ITEMS, PART
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
"""Stage of an item of which a list ended before its end."""
WHOLE = "whole"
"""Stage of an item whose list was read to what was known, or to its end."""
OVERRUN = "overrun"
"""Stage of an item whose list shows its last entries only, and none of those that the visit before saw."""
STAGE_RANK = 3
"""Of all three."""
MISSED = "harvester/lists/overrun"
"""Stat: visits between which entries may have come and gone."""
CUT_FILES = "harvester/lists/cut"
"""Stat: lists whose file ended before its end, or was too long to be read whole."""
REPEATED = "harvester/cursors/repeated"
"""Stat: lists that led to a page that was read already."""
MAX_TOGETHER = 500
"""Entries whose outputs are yielded together: the worker's other requests go on between them."""
COST_UNCHANGED = 0.1
"""Of a look that is answered without a body, in requests."""
"""Outcomes of a request with a cursor that is not known any more."""


class ListPage(NamedTuple):
    """A page of a list, as a spider reads it."""

    entries: Sequence[ListEntry]
    outputs: Sequence[Any]
    """What is yielded for each of them when it is new or has changed: a record, a request, Found; or a list."""
    next: str | None = None
    """A cursor, or an address, that the page hands out for the next one."""
    total: int | None = None
    """How many entries the whole list has, where it says that."""
    kept: Mapping[str, Any] = MappingProxyType({})
    """What the spider wants to be given with the next page, and with the next look: values as JSON has them."""
    is_window: bool = False
    """Whether it is all of the list that is shown, and older entries are shown no more."""
    cut: str = ""
    """Why the entries are not all of the page: then the look ends here, and was not whole."""


class PagedItem(NamedTuple):
    """The item of a list, as it goes along with the requests for its pages."""

    key: str
    input: Mapping[str, Any]


class PaginationSpider(JobSpider):
    """Give `page_request` and `read_page`; an item is a list, newest entries first.

    The first look at an item reads its list to the end. What a look leaves for the next one is written down when it has
    ended well, with all that followed from its entries: so one that breaks off leaves no hole.
    """

    reads_apart: ClassVar[frozenset[str]] = frozenset({"parse_list"})
    RULE: ClassVar[ListRule] = ListRule()
    """By which a look ends."""

    @abstractmethod
    def page_request(self, of: PagedItem, at: Position) -> Request:
        """For the page of a list that is asked for with this; None: the first. Its callback and errback are added."""

    @abstractmethod
    async def read_page(self, response: Response, of: PagedItem, kept: Mapping[str, Any]) -> ListPage:
        """Reads a page, by `self.read`. Raises ParseError when it is none.

        `kept`: what the page before has given, or the last whole look.
        """

    def rule_of(self, of: PagedItem) -> ListRule:
        """By which a look at this list ends."""
        return self.RULE

    def rest_of(self, kept: Mapping[str, Any]) -> datetime | None:
        """Until when the site wants no further look, as told from what was kept; None: it does not say."""
        return None

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Any]:
        for item in items:
            of = PagedItem(item.key, item.input)
            rule = self.rule_of(of)
            first = None if rule.pages == "cursor" else rule.first
            look = VisitProgress(mark_of(item.left.get("mark", {})))
            request = self._ask(of, look, first, item.left.get("kept", {}))
            # A look that broke off has read this page: that it is as it was says nothing of what is behind it.
            was_whole = item.left.get("attempt") == item.attempt - 1
            request.meta.setdefault(CONDITIONAL, was_whole or CHANGED_LATER)
            yield request

    async def parse_list(
        self, response: Response, of: list[Any], look: dict[str, Any], at: Position, kept: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """What is new on a page, and what leads to the next one, or the end of the look."""
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
            if at is None and not page.next:  # what is behind the cut is on this page, which is read again
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
        """A list that is as it was, and one whose cursor is refused: it is begun anew, once."""
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
    """Tells of a list that ends before its end. `name` and `why` are a sentence: which list does what."""
    spider.logger.warning("%s %s; it ends here", name, why)
    spider.crawler.stats.inc_value(stat)
    return Stage(item, CUT_SHORT, STAGE_RANK)


def _listed(output: Any) -> list[Any]:
    return output if isinstance(output, list) else [output]
