"""PDFs of tax bills, in crawls of a made-up county: each is kept whole, or it is said why there is none."""

import hashlib
from pathlib import Path
from typing import Any

from tests.counties.conftest import SITE, Crawls
from tests.counties.test_iasworld_crawls import register, write_parcels
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED
from tests.sandbox.county import County, Parcel
from tests.sandbox.county_iasworld import BILL, IasworldPortal, bill_lines, bill_pdf

PDF = "application/pdf"


def documents(crawls: Crawls) -> dict[str, dict[str, Any]]:
    """Parcel -> the document of its bill of 2025."""
    return {each["parcel_id"]: each for each in crawls.documents("tax_bills").values() if each["bill"] == "2025"}


async def test_the_pdf_of_a_bill_is_kept_with_its_text_or_the_reason_why_not(crawls: Crawls, tmp_path: Path) -> None:
    county = County(6)
    parcels = [parcel.parcel_id for parcel in county.parcels]
    whole, page, cut, endless, missing, later = parcels
    bad = {
        page: Answer(200, b"<html><p>Your bill is being made.</p></html>", kind=PDF),
        cut: Answer(200, bill_pdf(county.parcels[2])[:300], kind=PDF),
        endless: Answer(200, bill_pdf(county.parcels[3]), kind=PDF, endless=True),
        missing: Answer(404, b"<html>There is none.</html>", kind="text/html"),
    }

    def served(parcel: Parcel) -> Answer:
        return bad.get(parcel.parcel_id) or Answer(200, bill_pdf(parcel), kind="text/html")  # types are not believed

    crawls.fetch_files()
    crawls.environment["HARVESTER_MAX_PDF_MB"] = "1"
    write_parcels(county, tmp_path)
    async with IasworldPortal(county) as portal:
        portal.pdf = served
        register(crawls, portal, sessions=2)
        assert await crawls.run("iasworld", site=SITE, parcels="@parcels.csv") == FINISHED, crawls.said[-5000:]

        assert {(item["state"], item["outcome"]) for item in crawls.items()} == {("done", "ok")}
        assert portal.overlaps == 0, "a session that shows a parcel is asked for nothing else"
        found = documents(crawls)
        for parcel in (county.parcels[0], county.parcels[5]):
            body = bill_pdf(parcel)
            assert kept(found, parcel.parcel_id, tmp_path) == body
            assert found[parcel.parcel_id]["media_contents"]["bill"] == {
                "sha256": hashlib.sha256(body).hexdigest(),
                "size": len(body),
                "pages": 1,
                "text": "\n".join(bill_lines(parcel)),
            }
        assert kept(found, cut, tmp_path) == bad[cut].body
        problems = {parcel: found[parcel]["media_contents"]["bill"].get("problem", "") for parcel in parcels}
        words = {parcel: problem.partition(":")[0] for parcel, problem in problems.items()}
        assert words == {
            whole: "",
            later: "",
            page: "not_a_pdf",
            cut: "truncated",
            endless: "too_large",
            missing: "not_found",
        }
        assert all("media_paths" not in found[parcel] for parcel in (page, endless, missing))
        assert len(list(files(tmp_path).rglob("*.pdf"))) == 3

        bad = {whole: Answer(404), later: Answer(404)}  # which nobody asks for again
        assert await crawls.run("iasworld", site=SITE, parcels="@parcels.csv") == FINISHED, crawls.said[-5000:]
        found = documents(crawls)
        for parcel in county.parcels:
            assert kept(found, parcel.parcel_id, tmp_path) == bill_pdf(parcel)
            assert "problem" not in found[parcel.parcel_id]["media_contents"]["bill"]


async def test_a_worker_at_all_jobs_fetches_the_pdfs_of_those_that_want_them(crawls: Crawls, tmp_path: Path) -> None:
    county = County(2)
    with_bill, without = (parcel.parcel_id for parcel in county.parcels)
    crawls.fetch_files()
    async with IasworldPortal(county) as portal:
        register(crawls, portal)
        for parcel, media in ((with_bill, "yes"), (without, "no")):
            (tmp_path / "one.csv").write_text(f'parcel_id\n"{parcel}"\n')
            words = ["-a", f"site={SITE}", "-a", f"media={media}", "--input", "one.csv", "--key", "parcel_id"]
            submitted = run(HARVESTER, "jobs", "submit", "iasworld", *words, cwd=tmp_path, env=crawls.environment)
            assert submitted.returncode == 0, submitted.stderr
        assert await crawls.run("iasworld", job="all") == FINISHED, crawls.said[-5000:]
        asked = [arrival.path for arrival in portal.arrivals if BILL in arrival.path]
    assert len(asked) == 1
    found = documents(crawls)
    assert "media_paths" in found[with_bill]
    assert "media_paths" not in found[without]
    assert found[without]["pdf_url"]


def files(folder: Path) -> Path:
    return folder / "data" / "images"


def kept(found: dict[str, dict[str, Any]], parcel: str, folder: Path) -> bytes:
    """The stored file of a parcel's bill."""
    path: str = found[parcel]["media_paths"]["bill"]
    return (files(folder) / path).read_bytes()
