"""Reads one saved page of a parcel, or of a table of parcels, like the platform's spider."""

from collections.abc import Callable, Mapping

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, read_records
from harvester.parsers.counties.synonyms import Synonyms
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.arcgis import parser as arcgis
from harvester.spiders.counties.beacon import parser as beacon
from harvester.spiders.counties.devnet import parser as devnet
from harvester.spiders.counties.eagleweb import parser as eagleweb
from harvester.spiders.counties.esearch import parser as esearch
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.pacs import parser as pacs
from harvester.spiders.counties.patriot import parser as patriot
from harvester.spiders.counties.socrata import parser as socrata
from harvester.spiders.counties.vgsi import parser as vgsi
from harvester.spiders.counties.vgsi.records import read_card

_TABLES: Mapping[str, Callable[[bytes, Source, Provenance], PageRows]] = {
    "arcgis": arcgis.parse_page,
    "socrata": lambda body, source, provenance: socrata.parse_page(body, b"", source, provenance),
    "vgsi": lambda body, source, provenance: read_card(vgsi.parse_card(body), source, provenance),
}
"""Platforms whose pages become records directly."""
_PAGES: Mapping[str, Callable[[bytes, str, str, Synonyms], ParcelPage | None]] = {
    "beacon": beacon.read_report,
    "devnet": lambda body, _, url, here: devnet.read_parcel(body, url, here),
    "eagleweb": lambda body, _asked, _url, _here: eagleweb.read_account(body),
    "esearch": lambda body, asked, _, here: esearch.read_parcel(body, asked, here),
    "iasworld": lambda body, _asked, url, _here: iasworld.read_datalet(body, url),
    "pacs": lambda body, _, url, here: pacs.read_property(body, url, here),
    "patriot": lambda body, _asked, _url, here: patriot.read_card(body, here),
}
"""Platforms whose pages are read as sections first."""
PLATFORMS = _TABLES.keys() | _PAGES.keys()


def read_saved(platform: str, body: bytes, source: Source, provenance: Provenance, asked: str = "") -> PageRows:
    """Reads the records of a page; `provenance` has its address. Raises ParseError and PageFailed.

    `asked`: the requested number of the parcel; empty: the page may show any parcel.
    """
    found = read_unchecked(platform, body, source, provenance, asked)
    if not found.rejects:
        contract.check(found, platform)
    return found


def read_unchecked(platform: str, body: bytes, source: Source, provenance: Provenance, asked: str = "") -> PageRows:
    """Reads the records of a page without checking the contract of the platform."""
    source = source._replace(platform=platform)
    if read := _TABLES.get(platform):
        return read(body, source, provenance)
    page = read_page(platform, body, asked, provenance.url, source)
    if page is None:
        raise ParseError("the page shows no parcel")
    return read_records(page, source, provenance)


def read_page(platform: str, body: bytes, asked: str, url: str, source: Source) -> ParcelPage | None:
    """Reads the sections of a page, for platforms that have sections. Returns None when the page shows no parcel."""
    return _PAGES[platform](body, asked, url, source._replace(platform=platform).synonyms)
