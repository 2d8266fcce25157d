"""A made-up county on each platform: how it is harvested, what that must lead to, and how its answers may fail."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.counties.conftest import SITE, Crawls, Document
from tests.crawling import Answer
from tests.sandbox import (
    county_beacon,
    county_devnet,
    county_eagleweb,
    county_esearch,
    county_iasworld,
    county_pacs,
    county_patriot,
    county_tables,
    vision,
)
from tests.sandbox.county import County
from tests.sandbox.county_portal import CountyPortal

HTML, NOT_FOUND = "text/html; charset=utf-8", 404
UNKNOWN = Answer(200, b"<html><body>Welcome to the county</body></html>", kind=HTML)
COMMON = (
    Answer(200, b"<html><title>Down for maintenance</title><body>Back soon.</body></html>", kind=HTML),
    Answer(503, b"<html><body>Service Unavailable</body></html>", kind=HTML),
    Answer(429, b"", {"Retry-After": "1"}, kind=HTML),
    Answer(silent=True),
    Answer(missing=9),
)
"""Failures that any site may have."""
FORBIDDEN = Answer(403, b"<html><body>Forbidden</body></html>", kind=HTML)
"""One that is not among those of sites with sessions: a session that is refused rests for a minute."""
ANSWERS, APART = 50, 5
"""Of so many answers one is a failure of each kind; they are at least so many apart."""
ACCEPTED = 'disclaimer = "accepted by the tests on 2026-01-31"'


class Stand(NamedTuple):
    """A county on a platform."""

    spider: str
    portal: CountyPortal
    truth: Mapping[str, Mapping[str, Document]]
    """Collection -> `_id` -> what is to be stored."""
    place: str = "/"
    """Where the platform begins at the address of the portal."""
    lines: tuple[str, ...] = ()
    """Of the table `property` of its entry."""
    parcels: Sequence[str] = ()
    """That are asked for by their numbers; none: all are."""
    arguments: Mapping[str, Any] = {}
    requests: float = 1
    """That a parcel takes."""
    sessions: bool = False
    failures: Sequence[Answer] = (*COMMON, FORBIDDEN, UNKNOWN)
    fails: str = ""
    """What addresses have in them whose answers may fail; the others do not."""
    is_orderly: Callable[[CountyPortal], bool] = lambda portal: True
    """Whether requests came in the order that spares the site most."""
    unexpected: tuple[str, ...] | None = None
    """Fields of documents that the truth does not know; None: it knows a few fields only."""

    def enter(self, crawls: Crawls, *tables: str, sessions: int = 2) -> None:
        """Writes its entry, with further tables."""
        before = [f'[{SITE}]\nhosts = ["{self.portal.name}"]', *tables]
        if not any(".politeness]" in table for table in tables):
            before.append(f"[{SITE}.politeness]\nrequests_per_second = 0")
        if self.sessions:
            count = "" if self.spider == "eagleweb" else f"count = {sessions}\n"
            before.append(f"[{SITE}.identities]\n{count}logins_per_hour = 10000\nchain_idle_s = 3")
        address = f"{self.portal.url}{self.place}"
        crawls.enter(self.spider, address, *self.lines, before="\n".join(before))

    def given(self, folder: Path) -> dict[str, Any]:
        """The arguments of the crawl."""
        if not self.parcels:
            return {"site": SITE, "all": "yes", **self.arguments}
        numbers = "".join(f'"{number}"\n' for number in self.parcels)
        (folder / "parcels.csv").write_text(f"parcel_id\n{numbers}")
        return {"site": SITE, "parcels": "@parcels.csv", **self.arguments}

    def stored(self, crawls: Crawls, collection: str) -> dict[str, Document]:
        """What is stored, as far as the truth knows it."""
        return crawls.found(collection) if self.unexpected is None else crawls.documents(collection, self.unexpected)

    def check(self, crawls: Crawls) -> None:
        """What is stored is the county, no more and no less."""
        for collection, documents in self.truth.items():
            assert self.stored(crawls, collection) == documents, collection

    def failing(self) -> Callable[[str, int], Answer | None]:
        """For `portal.bad`: one answer in fifty is a failure of each kind, and all sessions end at random.

        No page fails twice in a row, and none is absent, empty or refused twice, also when an answer between is lost
        with a killed worker: one that is not there twice is gone, and a refusal spends an attempt of each item that
        begins with the page.
        """
        random, due, failed, once = Random(1), dict[int, Answer](), set[str](), set[str]()
        asked = 0

        def bad(path: str, number: int) -> Answer | None:
            nonlocal asked, due
            if self.fails not in path:
                return None
            path = re.sub(r"/\d{4}$", "", path)  # the page of a parcel, and the same of a year
            if asked % ANSWERS == 0:
                due = dict(zip(random.sample(range(0, ANSWERS, APART), len(self.failures)), self.failures, strict=True))
            failure = due.get(asked % ANSWERS)
            asked += 1
            if random.random() < 1 / ANSWERS:
                self.portal.forget()
            is_grave = failure is not None and (failure.status in (NOT_FOUND, FORBIDDEN.status) or failure.body == b"")
            if failure is None or path in failed or (is_grave and path in once):
                failed.discard(path)
                return None
            if is_grave:
                once.add(path)
            failed.add(path)
            return failure

        return bad


def _numbers(county: County) -> list[str]:
    return [parcel.parcel_id for parcel in county.parcels]


def _arcgis(parcels: int) -> Stand:
    county = County(parcels)
    refused = Answer(body=b'{"error":{"code":500,"message":"Error performing query operation","details":[]}}')
    return Stand(
        "arcgis",
        county_tables.ArcgisTable(county),
        county.truth(SITE),
        county_tables.LAYER,
        arguments={"page_rows": 5},
        requests=1 / 5,
        failures=(*COMMON, FORBIDDEN, UNKNOWN, refused),
    )


def _socrata(parcels: int) -> Stand:
    county = County(parcels)
    return Stand(
        "socrata",
        county_tables.SocrataTable(county),
        county.truth(SITE),
        f"/resource/{county_tables.DATASET}",
        arguments={"page_rows": 5},
        requests=1 / 5,
    )


def _vgsi(parcels: int) -> Stand:
    town = vision.VisionTown(parcels)
    failed = Answer(500, b"<html><title>Runtime Error</title></html>", kind=HTML)
    return Stand(
        "vgsi",
        town,
        town.truth(SITE),
        vision.PLACE,
        failures=(*COMMON[1:], FORBIDDEN, vision.MAINTENANCE, failed, UNKNOWN),
        unexpected=("labels", "provenance", "situs_parts"),
    )


def devnet(parcels: int, looks: Sequence[int] = county_devnet.LOOKS) -> Stand:
    county = County(parcels)
    gone = Answer(404, b"<html><title>404</title></html>", kind=HTML)
    return Stand(
        "devnet",
        county_devnet.DevnetPortal(county, looks),
        county_devnet.truth(county, SITE, looks),
        parcels=_numbers(county),
        failures=(*COMMON, FORBIDDEN, Answer(200, b"", kind=HTML), gone),
        fails=county_devnet.VIEW,
    )


def beacon(parcels: int, looks: Sequence[int] = county_beacon.LOOKS) -> Stand:
    county = County(parcels)
    return Stand(
        "beacon",
        county_beacon.BeaconPortal(county, looks),
        county_beacon.truth(county, SITE, looks),
        lines=(county_beacon.PARAMETERS,),
        parcels=_numbers(county),
    )


def _patriot(parcels: int) -> Stand:
    county = County(parcels)
    portal = county_patriot.PatriotPortal(county)
    return Stand(
        "patriot",
        portal,
        county_patriot.truth(county, SITE),
        "/default.asp",
        parcels=list(portal.accounts),
        requests=2,
        sessions=True,
        failures=(*COMMON, Answer(200, b"", kind=HTML)),
    )


def _pacs(parcels: int) -> Stand:
    county = County(parcels)
    return Stand(
        "pacs",
        county_pacs.PacsPortal(county),
        county_pacs.truth(county, SITE),
        county_pacs.ROOT,
        (f"parameters = {{ cid = {county_pacs.CID} }}",),
        county_pacs.property_ids(county),
        sessions=True,
        failures=(*COMMON, county_pacs.MAINTENANCE, county_pacs.EXPIRED, county_iasworld.STALE),
    )


def _esearch(parcels: int) -> Stand:
    county = County(parcels)

    def ends_what_is_begun(portal: CountyPortal) -> bool:
        paths = [arrival.path for arrival in portal.arrivals]
        last = max(paths.index(path) for path in {*paths} if county_esearch.VIEW in path)
        return any(county_esearch.TAXES in path for path in paths[:last])

    return Stand(
        "esearch",
        county_esearch.EsearchPortal(county, "token"),
        county_esearch.truth(county, SITE),
        parcels=_numbers(county),
        requests=2,
        failures=(*COMMON, FORBIDDEN, UNKNOWN, county_esearch.ERROR),
        is_orderly=ends_what_is_begun,
    )


def _eagleweb(parcels: int, root: str = county_eagleweb.TREASURER) -> Stand:
    county = county_eagleweb.accounts(parcels)
    is_treasurer = root == county_eagleweb.TREASURER
    truth = county_eagleweb.treasurers_truth if is_treasurer else county_eagleweb.assessors_truth
    ended = Answer(200, b"<html><body>Your session is no longer active, please login.</body></html>", kind=HTML)
    login = Answer(302, b"", {"Location": "../web/login.jsp"}, kind=HTML)
    return Stand(
        "eagleweb",
        county_eagleweb.EaglewebPortal(county),
        truth(county, SITE),
        root,
        parcels=_numbers(county),
        requests=2 if is_treasurer else 1,
        sessions=True,
        failures=(*COMMON, ended, login),
        fails="account.jsp",
    )


def _iasworld(parcels: int) -> Stand:
    county = County(parcels)
    return Stand(
        "iasworld",
        county_iasworld.IasworldPortal(county),
        {**county.truth(SITE), "tax_bills": county_iasworld.bills(county, SITE)},
        county_iasworld.ROOT,
        (ACCEPTED,),
        _numbers(county),
        requests=6,
        sessions=True,
        failures=(*COMMON[1:], county_iasworld.MAINTENANCE, county_iasworld.STALE),
    )


TWIN = "eagleweb-assessor"
"""EagleWeb's assessors and treasurers have sites of their own."""
STANDS: Mapping[str, Callable[[int], Stand]] = {
    "arcgis": _arcgis,
    "beacon": beacon,
    "devnet": devnet,
    "eagleweb": _eagleweb,
    TWIN: lambda parcels: _eagleweb(parcels, county_eagleweb.ASSESSOR),
    "esearch": _esearch,
    "iasworld": _iasworld,
    "pacs": _pacs,
    "patriot": _patriot,
    "socrata": _socrata,
    "vgsi": _vgsi,
}
"""Name -> a county of so many parcels."""
