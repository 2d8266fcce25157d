"""The base of spiders of property records: one spider for a platform, one registry entry for a jurisdiction."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urljoin, urlsplit

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.config import load_config
from harvester.exceptions import NotAccepted, ParseError, UsageError
from harvester.items import Found, ItemResult, Provenance, Record
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.drift import Signature
from harvester.parsers.counties.sections import parse_staged
from harvester.parsers.counties.table import PageRows
from harvester.project import spider_loader
from harvester.sites import load_sites
from harvester.sites.property import PropertyRecords
from harvester.spiders.base import SpiderArguments
from harvester.spiders.counties.arguments import PARCEL, PropertyArguments, mangled
from harvester.spiders.counties.controls import ControlStore
from harvester.spiders.counties.witness import Witnesses
from harvester.spiders.job import JobSpider, errback
from harvester.spiders.labels import note_unread_labels
from harvester.validation import did_you_mean

NO_RESULTS = "no_results"
"""Outcome of a parcel that the site does not know."""
UNKNOWN_SITE = "unknown_site"
"""Outcome of an item whose jurisdiction has left the registry."""
SITE = "site"
"""Key in an item's input: the jurisdiction, for items that the spider finds itself."""
AGAIN = timedelta(minutes=1)
"""Time to wait before a parcel is retried whose control parcel is missing, or whose token the site has forgotten."""


class Jurisdiction(NamedTuple):
    """An entry of the registry that publishes property records."""

    id: str
    records: PropertyRecords

    @property
    def source(self) -> Source:
        """The source that the parsers need."""
        field = str(self.records.parameters.get("parcel_id_field", ""))
        return Source(self.id, self.records.fips, field, self.records.platform, tuple(self.records.labels.items()))

    @property
    def where(self) -> str:
        """The condition for its rows in a shared table, in the table's query language; empty: all rows."""
        return str(self.records.parameters.get("where", ""))

    def page(self, name: str) -> str:
        """Returns the address of a page. A page's name at the end of the base_url is dropped: people often copy one."""
        parts = urlsplit(self.records.base_url)
        folder = parts.path if parts.path.endswith("/") or "." not in parts.path else parts.path.rpartition("/")[0]
        return urljoin(f"{parts.scheme}://{parts.netloc}", f"{folder.rstrip('/')}/{name}")


class PlatformSpider(JobSpider, ABC):
    """Base class: implement `requests_for`, for items of the kind PARCEL and for kinds that the spider finds.

    `scrapy crawl <platform> -a site=us-oh-franklin -a parcels=@parcels.csv`: one parcel is one item of the job.
    `missing` reports parcels that the site does not know.
    """

    Arguments: ClassVar[type[SpiderArguments]] = PropertyArguments
    ITEM_KINDS: ClassVar[tuple[str, ...]] = (PARCEL,)
    MAX_ELEMENTS: ClassVar[int] = 20_000
    """Maximum number of elements: the largest known page has 3,600. Readers take up to 50 microseconds an element."""
    ALL: ClassVar[str] = ""
    """Kind of the item that stands for all parcels of a jurisdiction; empty if the platform does not list them."""
    MOST_HELD: ClassVar[int] = 16
    """Maximum number of a site's requests that a worker claims.

    No more than these go out before a layout check, and few block a worker while they wait for a session.
    """
    arguments: PropertyArguments

    @classmethod
    def parse_arguments(cls, given: dict[str, Any]) -> SpiderArguments:
        arguments = super().parse_arguments(given)
        if isinstance(arguments, PropertyArguments) and "site" in arguments.model_fields_set:
            cls.check_jurisdiction(cls.jurisdiction(arguments.site))
            if arguments.all and not cls.ALL:
                raise UsageError(
                    f"-a all=yes: {cls.name} sites do not list their parcels. Give them: -a parcels=@FILE."
                )
        return arguments

    @classmethod
    def jurisdiction(cls, site: str) -> Jurisdiction:
        """Returns the jurisdiction of an entry. Raises UsageError when this platform has none with the name."""
        registry = load_sites()
        records = registry.named(site).property
        if records is None:
            ours = [each.name for each in registry if each.property and each.property.platform == cls.name]
            near = did_you_mean(site, ours) or (
                f"; on {cls.name} there are {len(ours):,}, like {ours[0]}" if ours else ""
            )
            raise UsageError(
                f"-a site={site}: the registry has no property records of that name{near}."
                " A site of your own is a table in HARVESTER_SITES_DIR: see docs/counties.md."
            )
        if records.platform != cls.name:
            is_read = records.platform in spider_loader().list()
            instead = (
                f"harvester crawl {records.platform} -a site={site}"
                if is_read
                else "no spider of this project reads that"
            )
            raise UsageError(f"-a site={site}: {records.name} is on {records.platform}, not on {cls.name}: {instead}")
        return Jurisdiction(site, records)

    @abstractmethod
    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterable[Request | ItemResult]:
        """Yields the first requests, like `requests_of`, with the jurisdiction of the items' job."""

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        try:
            jurisdiction = self.jurisdiction_of(items[0])
        except NotAccepted as error:
            yield from (ItemResult(item.id, "skipped", Outcome.POLICY_DENIED, str(error)) for item in items)
        except UsageError as error:  # jobs of other jurisdictions go on
            yield from (ItemResult(item.id, "failed", UNKNOWN_SITE, str(error)) for item in items)
        else:
            yield from self.requests_for(jurisdiction, items)

    @classmethod
    def check_jurisdiction(cls, jurisdiction: Jurisdiction) -> None:
        """Raises UsageError when the entry lacks values for the platform, and NotAccepted when it needs consent."""

    @staticmethod
    def check_session(jurisdiction: Jurisdiction) -> None:
        """Raises UsageError when the entry of a host that needs sessions has none."""
        records = jurisdiction.records
        host = load_sites().of(records.base_url)
        if not host.identities.kind:
            raise UsageError(
                f"{records.name} has no session at {host.name}, which serves other jurisdictions, too: write"
                f' hosts = ["{host.name}"] into the entry [{jurisdiction.id}], or into that of one of the others whose'
                " disclaimer, if it shows one, is accepted."
            )

    def jurisdiction_of(self, page: Any) -> Jurisdiction:
        """Returns the jurisdiction of the job that a page, a request or an item belongs to."""
        jurisdiction = self.jurisdiction(self.arguments_of(page).site)
        self.check_jurisdiction(jurisdiction)
        return jurisdiction

    async def before(self) -> None:
        """Raises UsageError when the arguments name no parcel, or a damaged number."""
        if self.only:
            return
        if not self.arguments.says_what:
            searches = "".join(f", or their {kind}: -a {kind}=..." for kind in self.ITEM_KINDS if kind != PARCEL)
            everything = ", or all of them: -a all=yes" if self.ALL else ""
            raise UsageError(
                f"Nothing is asked for. Name parcels: -a parcels=123,456 or -a parcels=@FILE{searches}{everything}."
                f" Parcels that were submitted as a job: -a job=JOB."
            )
        self.arguments.check_parcels()

    @classmethod
    def first_items(cls, arguments: Any) -> Iterator[Found]:
        if arguments.all:
            yield Found(cls.ALL, arguments.site, {SITE: arguments.site}, depth=0)
        yield from arguments.read_parcels()

    @classmethod
    def check_item(cls, found: Found) -> Found:
        if reason := mangled(found.key):
            raise UsageError(reason)
        return found

    @classmethod
    def site_of(cls, found: Found) -> str:
        """Returns the site that serves the jurisdiction's records; empty when the item names no jurisdiction."""
        registry, site = load_sites(), found.input.get(SITE)
        records = registry.named(site).property if isinstance(site, str) and found.kind != PARCEL else None
        return registry.of(records.base_url).name if records else ""

    @classmethod
    def staged_source(cls, key: str) -> Source:
        """Returns the source of a staged record. Raises ParseError when its jurisdiction has left the registry."""
        try:
            return cls.jurisdiction(key.partition(" ")[0]).source
        except UsageError as error:
            raise ParseError(str(error)) from None

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        """Parses a staged card, for platforms whose cards are read as sections."""
        read = parse_staged(raw, cls.staged_source(key), provenance)
        return next((record for record in read.records if (record.KIND, record.key) == (kind, key)), None)

    @cached_property
    def witnesses(self) -> Witnesses:
        """The layout checks, for platforms that show a card for each parcel."""
        return Witnesses(self.crawler.stats, ControlStore(load_config()))

    def witness_gone(self, page: Response | Request, item: str, parcel_id: str) -> ItemResult:
        """Returns the result for a card whose control parcel is missing: it is retried with another one."""
        self.witnesses.forget(page, parcel_id)
        said = f"its page is not as those before, and the parcel {parcel_id}, which was read then, is not there now"
        return ItemResult(item, "waiting", Outcome.LAYOUT_CHANGED, said, datetime.now(UTC) + AGAIN)

    def checked(
        self,
        page: Response,
        parcel_id: str,
        look: Signature,
        found: PageRows,
        doubt: list[Any] | None,
        ask: Callable[..., Request],
    ) -> Iterator[Any]:
        """Yields the records of a parcel, unless the page may be another parcel's or the site's layout has changed.

        `look`: the layout of the page. `ask` builds the request for a control parcel from its number and the doubt; the
        callback passes the doubt on to this method.
        """
        check = self.witnesses.check(page, parcel_id, look, found.records, doubt)
        if check.is_right:
            yield self.stored(found)
        if check.asks:
            yield ask(*check.asks)

    def stored(self, found: PageRows) -> list[Any]:
        """Returns the records and rejects of a page. Counts labels that parsers do not read."""
        note_unread_labels(self.crawler.stats, {label: said.times for label, said in found.unread.items()})
        return [*found.records, *found.rejects]

    def missing(self, parcels: Iterable[Sequence[str]], jurisdiction: Jurisdiction) -> Iterator[ItemResult]:
        """Yields the result "missing" for each parcel, given as an item's id and a number."""
        for item, parcel_id in parcels:
            hint = "; are leading zeros missing?" if parcel_id.isdecimal() else ""
            yield ItemResult(item, "done", NO_RESULTS, f"{jurisdiction.records.name} has no parcel {parcel_id!r}{hint}")

    @errback
    def list_failed(self, failure: Failure) -> Iterator[Any]:
        """Fails the item of a missing list or search page: that does not mean that it has no parcels."""
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        if get_policy(verdict.outcome).absent:
            yield self.site_is_gone(failure.request, verdict.reason)  # type: ignore[attr-defined]

    def site_is_gone(self, request: Request, reason: str) -> ItemResult:
        """Returns the failed result for an item whose site has moved."""
        at = self.jurisdiction_of(request).records.base_url
        said = f"the site is not at {at} any more: {reason}. Look for its new address"
        return ItemResult(self.item_of(request).id, "failed", Outcome.NOT_FOUND, said)
