"""`make demo-county`: harvests a made-up county on iasWorld with two workers, with PDFs of its tax bills.

It needs no internet. `python -m tests.demo.county FOLDER PARCELS` keeps its files elsewhere than in data/demo-county,
and makes the county larger or smaller.
"""

from pathlib import Path
from urllib.parse import urlsplit

from harvester.dashboard.summary import OPENED_BY
from tests.demo.queries import COUNTY_QUERIES
from tests.demo.steps import Failed, anew, ask, console, demonstrate, run, say, show
from tests.root import ROOT
from tests.sandbox.county_site import CountySite

SITE = "us-oh-made-up"
ENTRY = """\
[{site}]
hosts = ["{host}"]
[{site}.politeness]
requests_per_second = 0  # no limit: it is this machine that is asked
[{site}.identities]
count = 8                # sessions side by side, each with a parcel
logins_per_hour = 1000
[{site}.property]
name = "Made-up County"
fips = "39000"
platform = "iasworld"
base_url = "{url}"
disclaimer = "accepted by the demonstration on 2026-11-24"
"""


def main(folder: str, parcels: int) -> None:
    """Runs the demonstration with a county of so many parcels, its files in `folder`. Raises Failed."""
    place = ROOT / folder
    with CountySite(parcels) as site:
        variables = {
            "HARVESTER_SITES_DIR": str(place / "sites"),
            "HARVESTER_DATABASE": "harvester_demo_county",
            "HARVESTER_STATE_DIR": str(place / ".harvester"),
            "HARVESTER_DATA_DIR": str(place / "data"),
            "HARVESTER_IMAGES_STORE": str(place / "data" / "images"),
            "HARVESTER_PRIVATE_HOSTS": urlsplit(site.entry_url).netloc,
        }
        with anew(variables) as database:
            say(1, f"A county's portal answers at {site.entry_url}: {parcels:,} parcels")
            console.print("  Its entry in the registry of sites, and the file of parcels:", style="dim")
            _write(place, site)
            show(*(place / "sites" / "oh.toml").read_text().splitlines(), f"{folder}/parcels.csv")
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


def _write(place: Path, site: CountySite) -> None:
    (place / "sites").mkdir(parents=True, exist_ok=True)
    entry = ENTRY.format(site=SITE, url=site.entry_url, host=urlsplit(site.entry_url).netloc)
    (place / "sites" / "oh.toml").write_text(entry)
    numbers = "".join(f"{parcel.parcel_id}\n" for parcel in site.county.parcels)
    (place / "parcels.csv").write_text(f"parcel_id\n{numbers}")


def _count(stored: int, parcels: int) -> None:
    console.print(f"\n  {stored:,} of {parcels:,} parcels are stored.")
    if stored != parcels:
        raise Failed("Parcels are missing.", 1)


if __name__ == "__main__":
    demonstrate(main, "data/demo-county", 2000)
