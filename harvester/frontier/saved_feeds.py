"""Lets the feeds (-o, FEEDS) of a continued crawl hold the output of all its runs, each page once."""

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from itemadapter import ItemAdapter
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.config import Config
from harvester.exceptions import StorageError
from harvester.frontier.callbacks import packages_of
from harvester.frontier.in_flight import InFlight
from harvester.frontier.messages import Dead, Done, Operation, Skip
from harvester.frontier.values import UnknownValueError, decoder, to_plain
from harvester.internal_meta import START
from harvester.items import RECORDS, Batch, Record
from harvester.shutdown import RunEnding
from harvester.stores.feeds import RecordFeeds
from harvester.stores.saved_items import SavedItems, SavedPage, saved_folder

logger = logging.getLogger(__name__)


class SavedFeeds:
    """Saves a page's output before the frontier receives its end: a page with saved output is not fetched again.

    Pages are identified by the ids of their requests; start requests, which each run makes, by their fingerprint.
    """

    def __init__(
        self,
        crawler: Crawler,
        config: Config,
        spider: Spider,
        lease_of: Callable[[Request | None], InFlight | None],
        *,
        is_continued: bool,
    ) -> None:
        self._spider = spider
        self._lease_of = lease_of
        self._saved = SavedItems(crawler, saved_folder(config, spider.name))
        self._known: set[int] = set()
        """Pages whose items the feeds have: pages of earlier runs, and start requests of this run."""
        self._before: dict[str, Counter[bytes]] = {}
        """Output by failed page, which the page may yield once more after a retry."""
        self._pages: dict[str, str] = {}
        """Page by lease."""
        self._owners: dict[str, str] = {}
        """Lease whose items the feeds receive, by page in progress."""
        self._given: defaultdict[str, list[bytes]] = defaultdict(list)
        """Output by lease."""
        self._starts: Counter[int] = Counter()
        self.is_over = False
        """True if no work is left for another run. The scheduler sets it when it closes."""
        feeds = crawler.get_extension(RecordFeeds)
        is_saved = saved_folder(config, spider.name).is_dir()
        self.is_on = feeds is not None or (is_continued and is_saved)
        if is_continued:
            self._saved.go_on()
        else:
            self._saved.begin_anew()
        if is_continued and feeds and not is_saved:
            logger.warning(
                "What earlier runs of this crawl gave was saved for no feed: -o gets the rest. All that is stored is"
                " written by `harvester export`"
            )
        if feeds:
            feeds.saved = self
        elif self.is_on:
            crawler.signals.connect(self.select_new, signals.item_scraped)
        crawler.signals.connect(self.engine_stopped, signals.engine_stopped)

    # For the feeds ----------------------------------------------------------------------------------------

    @property
    def begin(self) -> Callable[..., None]:
        """Prepares a file that is continued. See SavedItems.begin."""
        return self._saved.begin

    def earlier(self) -> Iterator[Any]:
        """Yields the output of earlier runs of the crawl. A page that failed and was retried counts only the last
        time."""
        read = decoder(Any, packages_of(self._spider))
        last = {_number(page.name): number for number, page in enumerate(self._saved.read())}
        for number, page in enumerate(self._saved.read()):
            if last[_number(page.name)] != number:
                continue
            if page.is_dead:
                self._before[page.name] = Counter(page.items)
            else:
                self._known.add(_number(page.name))
            for item in page.items:
                yield _decoded(item, read)

    def select_new(self, item: Any, response: Response | Failure | None) -> list[Any]:
        """Returns the records, or items, that the feeds do not have yet, and notes them."""
        records = list(item.records) if isinstance(item, Batch) else [item]
        lease = self._lease_of(getattr(response, "request", None))
        page = self._pages.get(lease.id) if lease else None
        if lease is None or page is None:  # from `start`, which yields them in each run
            return records
        if _number(page) in self._known or self._owners.setdefault(page, lease.id) != lease.id:
            return []
        given_before = self._before.get(page, Counter())
        new = []
        for each in records:
            try:
                encoded = _encoded(each)
            except (UnknownValueError, TypeError, ValueError, RecursionError) as error:
                logger.warning("A run that continues this one will not have it in its feeds: %s", error)
                new.append(each)
                continue
            self._given[lease.id].append(encoded)
            if given_before[encoded] > 0:
                given_before[encoded] -= 1
            else:
                new.append(each)
        return new

    # For the frontier -------------------------------------------------------------------------------------

    def name_start(self, request: Request, fingerprint: int) -> None:
        """Gives a start request a name that is the same in the next run."""
        request.meta[START] = f"start:{fingerprint}:{self._starts[fingerprint]}"
        self._starts[fingerprint] += 1

    def lease_began(self, request: Request, lease: InFlight) -> None:
        """Notes the page of a request that a worker begins."""
        self._pages[lease.id] = request.meta.get(START, lease.id)

    def lease_ended(self, lease: str, operation: Operation) -> None:
        """Saves what the page gave, before the frontier receives the end of its lease."""
        page, given = self._pages.pop(lease, ""), self._given.pop(lease, [])
        is_owner = self._owners.get(page) == lease
        if is_owner:
            del self._owners[page]
        is_done = isinstance(operation, (Done, Skip))
        self._before.pop(page, None)
        if given and not is_done:
            self._before[page] = Counter(given)
        if page != lease and is_done:
            self._known.add(_number(page))
        if not is_done and not isinstance(operation, Dead):
            return
        if given and is_owner:
            try:
                self._saved.save(SavedPage(page, not is_done, given))
            except (StorageError, RunEnding):
                return  # this error ends the run

    def engine_stopped(self) -> None:
        """Closes the saved output: the feeds are complete by now."""
        self._saved.close()
        if self.is_over:
            self._saved.forget()


def _number(page: str) -> int:
    return int.from_bytes(hashlib.blake2b(page.encode(), digest_size=8).digest(), "big")


def _encoded(item: Any) -> bytes:
    if isinstance(item, Record):
        return msgspec.msgpack.encode([item.KIND, msgspec.msgpack.encode(item)])
    try:
        plain = to_plain(item, "an item")
    except UnknownValueError:  # as a feed would write it
        plain = msgspec.json.decode(msgspec.json.encode(ItemAdapter(item).asdict(), enc_hook=str))
    return msgspec.msgpack.encode(["", msgspec.msgpack.encode(plain)])


def _decoded(data: bytes, read: msgspec.msgpack.Decoder[Any]) -> Any:
    kind, encoded = msgspec.msgpack.decode(data, type=tuple[str, bytes])
    return msgspec.msgpack.decode(encoded, type=RECORDS[kind]) if kind else read.decode(encoded)
