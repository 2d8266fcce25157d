"""`make demo-county`: harvests a made-up county on iasWorld with two workers, with PDFs of its tax bills.

It needs no internet. `python -m tests.demo.county FOLDER PARCELS` keeps its files elsewhere than in data/demo-county,
and makes the county larger or smaller.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from harvester.dashboard.summary import OPENED_BY
from harvester.sandbox.counties import iasworld
from harvester.sandbox.counties.server import Counties, serving, write_entries
from tests.demo.queries import COUNTY_QUERIES
from tests.demo.steps import Failed, anew, ask, console, demonstrate, run, say, show
from tests.root import ROOT

SITE = "us-pa-sandbox"


@contextmanager
def portal(parcels: int) -> Iterator[Counties]:
    """Serves the counties of `harvester sandbox` in a thread, while the block runs."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    counties = serving(parcels)
    try:
        yield asyncio.run_coroutine_threadsafe(counties.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(counties.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def main(folder: str, parcels: int) -> None:
    """Runs the demonstration with a county of so many parcels, its files in `folder`. Raises Failed."""
    place = ROOT / folder
    with portal(parcels) as counties:
        host = counties.hosts[0]
        variables = {
            "HARVESTER_SITES_DIR": str(place / "sites"),
            "HARVESTER_DATABASE": "harvester_demo_county",
            "HARVESTER_STATE_DIR": str(place / ".harvester"),
            "HARVESTER_DATA_DIR": str(place / "data"),
            "HARVESTER_IMAGES_STORE": str(place / "data" / "images"),
            "HARVESTER_PRIVATE_HOSTS": host,
        }
        with anew(variables) as database:
            say(1, f"A county's portal answers at http://{host}{iasworld.ROOT}: {parcels:,} parcels")
            console.print("  Its entry in the registry of sites, and the file of parcels:", style="dim")
            _write(place, counties, parcels)
            show(*iasworld.ENTRY.format(host=host).strip().splitlines(), f"{folder}/parcels.csv")
            say(2, "Making a job of the parcels, and working at it with two workers")
            submit = ["harvester", "jobs", "submit", "iasworld", "-a", f"site={SITE}"]
            run([*submit, "--input", f"{folder}/parcels.csv", "--key", "parcel_id"])
            run(["harvester", "worker", "--processes", "2"])
            say(3, "What came of it")
            (job,) = (each["_id"] for each in database.jobs.find())
            run(["harvester", "jobs", "show", job])
            _count(database.properties.count_documents({}), parcels)
            say(4, "Asking MongoDB, in Python")
            show(f"db = {OPENED_BY}")
            for title, query in COUNTY_QUERIES:
                ask(database, title, query)
            say(5, "Writing files: the records, and the manifest, which says of each parcel what became of it")
            run(["harvester", "jobs", "export", job, "--format", "csv", "--out", f"{folder}/export"])
            say(6, "Drawing a picture of it")
            run(["harvester", "report", "--job", job, "--out", f"{folder}/report.html"])
    console.print("\nThe portal answered while this ran. `harvester sandbox` serves counties for as long as you like.")
    console.print(f"\nCharts of the county are in {folder}/report.html: open it in a browser.")
    console.print(f"The PDFs of its bills are below {folder}/data/images/{SITE}, the tables in {folder}/export.")
    console.print("To try others by hand: harvester sandbox serves three counties and prints what to type.")


def _write(place: Path, counties: Counties, parcels: int) -> None:
    write_entries(counties, place / "sites", None)
    numbers = "".join(f"{iasworld.parcel_id_of(number)}\n" for number in range(1, parcels + 1))
    (place / "parcels.csv").write_text(f"parcel_id\n{numbers}")


def _count(stored: int, parcels: int) -> None:
    console.print(f"\n  {stored:,} of {parcels:,} parcels are stored.")
    if stored != parcels:
        raise Failed("Parcels are missing.", 1)


if __name__ == "__main__":
    demonstrate(main, "data/demo-county", 2000)
