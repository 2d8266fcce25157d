"""The command `harvester sites check`: fetches a known parcel, and prints differences from the site's entry."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from harvester.cli.completion import site_names
from harvester.cli.configured import load_config
from harvester.exceptions import UsageError
from harvester.validation import did_you_mean

if TYPE_CHECKING:
    from harvester.items import Record
    from harvester.spiders.counties.platform import PlatformSpider

DIFFERS, NOTHING_CAME = 6, 7
"""Exit codes: the parcel differs, or it could not be fetched."""
SUGGESTED = ("situs_address", "use_code", "acres", "year_built")
"""Fields that seldom change, suggested for the entry."""


def check_command(
    name: Annotated[str, typer.Argument(metavar="ID", help="Of the site.", autocompletion=site_names)],
    parcel: Annotated[str, typer.Option(help="Another parcel than its entry names: what it says is shown.")] = "",
) -> None:
    """Ask for one known parcel, and compare it with what the site's entry says (check = {...}). Nothing is stored."""
    from harvester.cli.new_site import toml_of
    from harvester.cli.sites_views import site_named

    records = site_named(name).property
    if records is None:
        raise UsageError(f"check: {name} publishes no property records.")
    expected = {} if parcel else {field: value for field, value in records.check.items() if field != "parcel"}
    parcel = parcel or str(records.check.get("parcel", ""))
    if not parcel:
        raise UsageError(
            f"check: the entry of {name} names no known parcel. Look for one at {records.base_url}, and see what is"
            f" read of it: harvester sites check {name} --parcel NUMBER"
        )
    if "," in parcel or parcel.startswith("@"):
        raise UsageError(f"check: {parcel!r} is not the number of one parcel: give one, without a comma or a file.")
    _check_fields(expected)
    came, said, unread = _ask(_spider_of(records.platform), name, parcel)
    if not came:
        print(f"{name}: the parcel {parcel} did not come: {said}")
        raise typer.Exit(NOTHING_CAME)
    if unread:
        print(f"Labels nobody reads: {', '.join(map(repr, unread))}.")
        print(f"What they may mean is proposed of a saved page: harvester sites learn {name} PAGE\n")
    found = _said(came)
    if wrong := differences(expected, found):
        print(f"{name}: the parcel {parcel} is not as its entry says:")
        print("\n".join(f"  {line}" for line in wrong))
        raise typer.Exit(DIFFERS)
    if expected:
        print(f"{name}: the parcel {parcel} is as its entry says: {', '.join(expected)}.")
    else:
        shown = {field: _plain(found[field]) for field in SUGGESTED if field in found}
        print(
            f"{name}: of the parcel {parcel} this is read. Compare it with the site; if it is right, write it down:\n"
        )
        print(f"check = {toml_of({'parcel': parcel, **shown})}")
    print(f"checked = {datetime.now(UTC).date()}")


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Returns a line for each field with an unexpected value."""
    return [
        f"{field}: {_plain(found.get(field))!r} instead of {wanted!r}"
        for field, wanted in expected.items()
        if not _alike(wanted, _plain(found.get(field)))
    ]


def _alike(wanted: Any, found: Any) -> bool:
    """Compares texts without regard to blanks and capitals."""
    if isinstance(wanted, str) and isinstance(found, str):
        return wanted.split() == found.split() or wanted.casefold().split() == found.casefold().split()
    return bool(wanted == found)


def _plain(value: Any) -> Any:
    """Converts a value to TOML's types: several lines to a text, money to a number."""
    if isinstance(value, tuple):
        return "; ".join(map(str, value))
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    return value


def _said(records: "Iterable[Record]") -> dict[str, Any]:
    """Returns the values by field, from the property or else from its latest assessment."""
    from harvester.items.property import Assessment, Property

    said: dict[str, Any] = {}
    properties = [record for record in records if isinstance(record, Property)]
    rolls = sorted((record for record in records if isinstance(record, Assessment)), key=lambda each: each.roll)
    for record in [*rolls[-1:], *properties]:
        said |= {
            name: value for name in record.__struct_fields__ if (value := getattr(record, name)) not in (None, "", ())
        }
    return said


def _check_fields(expected: Mapping[str, Any]) -> None:
    from harvester.items.property import Assessment, Property

    known = {*Property.__struct_fields__, *Assessment.__struct_fields__}
    for field in expected:
        if field not in known:
            raise UsageError(f"check: a property has no field {field!r}{did_you_mean(field, known)}")


def _spider_of(platform: str) -> "type[PlatformSpider]":
    from harvester.project import spider_loader

    loader = spider_loader()
    if platform not in loader.list():
        raise UsageError(f"check: no spider of this project reads {platform}: see SPIDER_MODULES in its settings.")
    return cast("type[PlatformSpider]", loader.load(platform))


def _ask(spider: "type[PlatformSpider]", site: str, parcel: str) -> "tuple[list[Record], str, list[str]]":
    """Fetches a parcel in a job of its own, like any crawl.

    Returns its records, the outcome for a parcel without records, and the labels that no field reads.
    """
    from scrapy import signals
    from scrapy.crawler import AsyncCrawlerProcess

    from harvester.dashboard.progress import unread_labels
    from harvester.items import Batch
    from harvester.project import project_settings

    spider.parse_arguments({"site": site, "parcels": parcel})  # raises for bad arguments before the job begins
    settings, records, told = project_settings(), list[Any](), list[str]()
    settings.setdict({"ITEM_PIPELINES_BASE": {}, "EXTENSIONS_BASE": {}, "LOG_LEVEL": "ERROR"}, "cmdline")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(spider)

    def keep(item: Any) -> None:
        if isinstance(item, Batch):
            records.extend(item.records)
            told.extend(f"{said.outcome}: {said.reason}" for said in item.said)

    crawler.signals.connect(keep, signals.item_scraped)
    process.crawl(crawler, site=site, parcels=parcel)
    process.start()
    job = crawler.stats.get_value("harvester/job")
    fate = told[-1] if told else asyncio.run(_fate(job)) if job and not records else "see above"
    return records, fate, list(unread_labels(crawler.stats.get_stats()))


async def _fate(job: str) -> str:
    """Returns the parcel's outcome, and cancels the job if it is still open."""
    from harvester.jobs.documents import JobState
    from harvester.jobs.listing import ItemFilter
    from harvester.jobs.service import job_service

    async with job_service(load_config()) as service:
        (report,) = await service.items(job, ItemFilter())
        if (await service.job(job)).state is JobState.OPEN:
            await service.cancel(job)
    return f"{report.item.outcome}: {report.item.reason}"
