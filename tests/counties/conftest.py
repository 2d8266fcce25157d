"""Crawls of a made-up county, which a test's own registry names."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pymongo.database import Database

from tests.jobs.running import Runs
from tests.sandbox.county import County
from tests.sandbox.county_tables import DATASET, LAYER, ArcgisTable, CountyTable

Document = dict[str, Any]
SITE = "us-mi-made-up"
NO_BREAKER = f"[{SITE}.breaker]\nenabled = false\n"


class Crawls(Runs):
    """Runs of the spider of a table."""

    def __init__(self, folder: Path, mongodb: Database[Document], **variables: str) -> None:
        super().__init__(folder, "tests.counties.settings", sites_dir=str(folder / "sites"), **variables)
        (folder / "sites").mkdir()
        self.sites = folder / "sites" / "mi.toml"
        """The registry's file."""
        self._mongodb = mongodb

    @property
    def environment(self) -> dict[str, str]:
        """That of its processes."""
        return self._environment

    def fetch_files(self) -> None:
        """Those of records, from now on."""
        self._environment["FETCH_FILES"] = "1"

    @property
    def is_running(self) -> bool:
        return any(process.returncode is None for process in self.processes)

    def register(self, table: CountyTable, **parameters: str) -> None:
        """Writes the table's entry."""
        platform, place = ("arcgis", LAYER) if isinstance(table, ArcgisTable) else ("socrata", f"/resource/{DATASET}")
        given = ", ".join(f'{name} = "{value}"' for name, value in parameters.items())
        self.enter(platform, table.url + place, f"parameters = {{ {given} }}")

    def enter(self, platform: str, base_url: str, *lines: str, before: str = "") -> None:
        """Writes an entry, with these lines of its table `property`, and others before that.

        No breaker opens unless they say so: it would be chance which of few bad parcels come in a row. An entry
        without hosts is of a jurisdiction beside others on its server, whose breaker is that of the server.
        """
        if f"[{SITE}.breaker]" not in before:
            before += f"\n{NO_BREAKER}"
        if "hosts" not in before:
            before += f'\n[without-breaker]\nhosts = ["{urlsplit(base_url).netloc}"]\nbreaker.enabled = false\n'
        records = f'name = "Made-up County"\nfips = "26001"\nplatform = "{platform}"\nbase_url = "{base_url}"\n'
        self.sites.write_text(f"{before}\n[{SITE}.property]\n{records}" + "\n".join(lines))

    def documents(self, collection: str, without: Sequence[str] = ()) -> dict[str, Document]:
        """`_id` -> the whole stored document, but for these fields; decimals as such."""
        rows = {row["_id"]: row for row in self._mongodb[collection].find()}
        return {
            key: {
                name: value.to_decimal() if hasattr(value, "to_decimal") else value
                for name, value in row.items()
                if name not in ("_id", *without)
            }
            for key, row in rows.items()
        }

    def found(self, collection: str) -> dict[str, Document]:
        """`_id` -> what of the stored document the county's truth knows."""
        known = {
            "properties": ("owner_names", "situs_address", "use_code", "acres", "tax_year"),
            "assessments": (
                *("tax_year", "currency", "market_value", "land_value", "taxable_value"),
                *("assessed_value", "assessed_land_value", "total_value"),
            ),
            "sales": ("sale_date", "currency", "sale_price", "instrument_number"),
            "tax_bills": ("tax_year", "currency", "billed", "paid"),
        }[collection]
        found = {}
        for row in self._mongodb[collection].find():
            shown = {name: row[name] for name in ("jurisdiction", "parcel_id", *known) if name in row}
            for name, value in shown.items():
                if hasattr(value, "to_decimal"):
                    shown[name] = value.to_decimal()
            named = row.get("others", {}).items()
            others = {name.rpartition(": ")[2].lower().replace(" ", "_"): value for name, value in named}
            if "flood_zone" in others:
                shown["flood_zone"] = others["flood_zone"]
            found[row["_id"]] = shown
        return found

    def check(self, county: County, only: str = "") -> None:
        """What is stored is the county, no more and no less."""
        for collection, truth in county.truth(SITE, only).items():
            assert self.found(collection) == truth, collection

    def items(self, **of: str) -> list[Document]:
        """Of all jobs, those of a kind or state."""
        return list(self._mongodb["job_items"].find(of).sort("key"))


@pytest.fixture
async def crawls(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[Document]
) -> AsyncIterator[Crawls]:
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Crawls(tmp_path, mongodb, **variables, deferred_seconds="0") as crawls:
        yield crawls
