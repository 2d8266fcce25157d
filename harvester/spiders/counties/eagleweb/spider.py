"""The spider `eagleweb`: accounts of Tyler EagleWeb, as the assessor or the treasurer of a county shows them."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import ParseError, UsageError
from harvester.internal_meta import STEP
from harvester.items import Found, ItemResult
from harvester.items.property import normalized
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome, get_policy, verdict_of
from harvester.parsers.counties.addresses import AddressQuery
from harvester.parsers.counties.sections import ParcelPage, joined, records_of, signature
from harvester.sites import load_sites
from harvester.sites.agreements import root_of
from harvester.spiders.counties.arguments import PARCEL
from harvester.spiders.counties.eagleweb import parser as parse
from harvester.spiders.counties.platform import NO_RESULTS, Jurisdiction
from harvester.spiders.counties.searches import ADDRESS, OWNER, SearchArguments, SearchingSpider, number_and_street
from harvester.spiders.counties.witness import FIRST, Doubt
from harvester.spiders.job import errback

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class EaglewebSpider(SearchingSpider):
    """Harvests accounts of a county on Tyler EagleWeb: the assessor's, or the treasurer's with bills by year.

    Domain: the base_url of the site's entry. Caveats: a parcel's number is its account's; a statement that guests must
    agree to is agreed to only if the site's entry names the person who accepted it; on a treasurer's site accounts are
    found only by number; accounts are not listed, so all=yes is refused. Arguments: see `harvester spiders show
    eagleweb`.
    """

    name = "eagleweb"
    IN_SESSIONS = True
    Arguments = SearchArguments
    ITEM_KINDS = (PARCEL, ADDRESS, OWNER)
    arguments: SearchArguments

    @classmethod
    def check_jurisdiction(cls, jurisdiction: Jurisdiction) -> None:
        host = load_sites().of(jurisdiction.records.base_url)
        if not host.identities.kind:
            raise UsageError(
                f"{jurisdiction.records.name} has no session at {host.name}: write"
                f' hosts = ["{host.name}"] into the entry [{jurisdiction.id}].'
            )

    def requests_for(self, jurisdiction: Jurisdiction, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        for item in items:
            if item.kind == PARCEL:
                yield self._account(jurisdiction, item.key)
            elif parse.is_treasurer(root_of(jurisdiction.records.base_url)):
                said = (
                    f"{jurisdiction.records.name} is a treasurer's site, where accounts are found by their number only"
                )
                yield ItemResult(item.id, "failed", Outcome.INVALID, said)
            else:
                yield self._search(jurisdiction, item.kind, item.key)

    # An account -------------------------------------------------------------------------------------------------

    def parse_account(self, response: Response, number: str, doubt: list[Any] | None) -> Iterator[Any]:
        """Yields an assessor's records, or the request for a treasurer's second page.

        When the page has no account, searches for it.
        """
        page, jurisdiction = parse.read_account(response.body), self.jurisdiction_of(response)
        if page is None:
            response.meta[STEP] = True
            yield self._search(jurisdiction, PARCEL, number, doubt)
        elif normalized(page.parcel_id) != normalized(number):
            raise ParseError(f"the account {number} was asked for, and the page is that of {page.parcel_id}")
        elif parse.is_treasurer(response.url):
            read = msgspec.to_builtins(page)
            yield self._account(jurisdiction, number, doubt, read)
        else:
            yield from self._read(response, number, page, doubt)

    def parse_transactions(
        self, response: Response, number: str, doubt: list[Any] | None, read: dict[str, Any]
    ) -> Iterator[Any]:
        """Yields the records of a treasurer's account, whose first page is `read`."""
        page = joined(msgspec.convert(read, ParcelPage), [parse.read_transactions(response.body, number)])
        yield from self._read(response, number, page, doubt)

    @errback
    def account_failed(self, failure: Failure) -> Iterator[Any]:
        """Searches for an account whose page is missing: only the search proves that the account is missing."""
        request: Request = failure.request  # type: ignore[attr-defined]
        if get_policy(verdict_of(failure.value).outcome).no_content:  # type: ignore[arg-type]
            asked = request.cb_kwargs
            yield self._search(self.jurisdiction_of(request), PARCEL, asked["number"], asked["doubt"])

    def _read(self, response: Response, number: str, page: ParcelPage, doubt: list[Any] | None) -> Iterator[Any]:
        jurisdiction = self.jurisdiction_of(response)
        found = records_of(page, jurisdiction.source, self.provenance(response))
        yield from self.checked(response, number, signature(page), found, doubt, partial(self._account, jurisdiction))

    def _account(
        self,
        jurisdiction: Jurisdiction,
        number: str,
        doubt: list[Any] | None = None,
        read: dict[str, Any] | None = None,
    ) -> Request:
        """Requests an account's page. `read`: the first page of a treasurer's account, which has two."""
        root, arguments = root_of(jurisdiction.records.base_url), {"number": number, "doubt": doubt}
        return Request(
            parse.account_url(root, number, of_transactions=read is not None),
            self.parse_transactions if read else self.parse_account,
            errback=self.account_failed,
            cb_kwargs={**arguments, "read": read} if read else arguments,
            meta={STEP: True} if parse.is_treasurer(root) and not read else {},
            priority=FIRST if doubt else 0,
            dont_filter=True,
        )

    # Searches ---------------------------------------------------------------------------------------------------

    def parse_search(self, response: Response, kind: str, key: str, doubt: list[Any] | None) -> Iterator[Any]:
        """Yields the accounts that were found, or the result that the account is missing."""
        jurisdiction, item = self.jurisdiction_of(response), self.item_of(response).id
        found = parse.read_results(response.body, response.url)
        if kind == PARCEL and any(normalized(number) == normalized(key) for number in found.accounts):
            raise ParseError(f"the search finds the account {key}, and its page does not show it")
        if found.number > len(found.accounts):
            said = f"{found.number} are found by {key!r}, and the site shows {len(found.accounts)} at once"
            yield ItemResult(item, "failed", Outcome.TOO_MANY, said)
        elif kind == PARCEL and doubt and Doubt(*doubt).shown:
            yield self.witness_gone(response, item, key)
        elif kind == PARCEL:
            yield from self.missing([[item, key]], jurisdiction)
        elif not found.accounts:
            said = f"{jurisdiction.records.name} has no account of the {kind} {key!r}"
            yield ItemResult(item, "done", NO_RESULTS, said)
        yield from (Found(PARCEL, number) for number in found.accounts if kind != PARCEL)

    def _search(self, jurisdiction: Jurisdiction, kind: str, key: str, doubt: list[Any] | None = None) -> Request:
        """Searches by number, by owner, or by house number and street without its type."""
        root = root_of(jurisdiction.records.base_url)
        page, form = "taxweb/results.jsp", {"AllTypes": "ALL", "docTypeTotal": "4"}
        if parse.is_treasurer(root):
            page, form = "treasurerweb/searchPOST.jsp", {"TaxAccountID": key}
        elif kind == ADDRESS:
            number, street = number_and_street(AddressQuery.of(key).asked)
            form |= {"SitusIDHouseNumber": number, "SitusIDStreetName": street}
        elif kind == OWNER:
            form |= {"OwnerIDSearchString": key, "OwnerIDSearchType": "Normal"}
        else:
            form |= {"AccountNumID": key}
        return Request(
            root + page,
            self.parse_search,
            method="POST",
            body=urlencode(form),
            headers=_FORM,
            errback=self.list_failed,
            cb_kwargs={"kind": kind, "key": key, "doubt": doubt},
            meta={STEP: True},
            priority=FIRST if kind == PARCEL else 0,
            dont_filter=True,
        )
