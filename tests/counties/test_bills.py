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
from tests.sandbox.county_iasworld import BILL, DISCLAIMER, ROOT, IasworldPortal, bill_lines, bill_pdf

PDF = "application/pdf"


async def test_the_pdf_of_a_bill_is_kept_with_its_text_or_the_reason_why_not_if_its_job_wants_pdfs(
    crawls: Crawls, tmp_path: Path
) -> None:
    county, other = County(6), County(7).parcels[-1]
    parcels = [parcel.parcel_id for parcel in county.parcels]
    whole, page, cut, endless, missing, mistyped = parcels
    bad = {
        page: Answer(200, b"<html><p>Your bill is being made.</p></html>", kind=PDF),
        cut: Answer(200, bill_pdf(county.parcels[2])[:300], kind=PDF),
        endless: Answer(200, bill_pdf(county.parcels[3]), kind=PDF, endless=True),
        missing: Answer(404, b"<html>There is none.</html>", kind="text/html"),
        mistyped: Answer(200, bill_pdf(county.parcels[5]), kind="text/html"),
    }

    to_disclaimer = Answer(302, b"", {"Location": f"{ROOT}{DISCLAIMER}?FromUrl=x"}, kind="text/html")
    expired = [whole]

    def served(parcel: Parcel) -> Answer:
        if parcel.parcel_id in expired:
            expired.remove(parcel.parcel_id)
            return to_disclaimer
        return bad.get(parcel.parcel_id) or Answer(200, bill_pdf(parcel), kind=PDF)

    crawls.fetch_files()
    crawls.environment["HARVESTER_MAX_PDF_MB"] = "1"
    async with IasworldPortal(County(7)) as portal:
        portal.pdf = served
        register(crawls, portal, sessions=2)
        write_parcels(county, tmp_path)
        submit(crawls, tmp_path, media="yes")
        (tmp_path / "parcels.csv").write_text(f'parcel_id\n"{other.parcel_id}"\n')
        submit(crawls, tmp_path, media="no")
        assert await crawls.run("iasworld", job="all") == FINISHED, crawls.said[-5000:]

        assert {(item["state"], item["outcome"]) for item in crawls.items()} == {("done", "ok")}
        assert portal.agreements == 3, "of two sessions one had ended when a PDF was asked for"
        assert portal.overlaps == 0, "a session that shows a parcel is asked for nothing else"
        found = latest(crawls)
        for parcel in (county.parcels[0], county.parcels[5]):
            body = bill_pdf(parcel)
            assert kept(found[parcel.parcel_id], tmp_path) == body
            assert found[parcel.parcel_id]["media_contents"]["bill"] == {
                "sha256": hashlib.sha256(body).hexdigest(),
                "size": len(body),
                "pages": 1,
                "text": "\n".join(bill_lines(parcel)),
            }
        assert kept(found[cut], tmp_path) == bad[cut].body
        problems = {each: found[each]["media_contents"]["bill"].get("problem", "") for each in parcels}
        assert {each: problem.partition(":")[0] for each, problem in problems.items()} == {
            whole: "",
            page: "not_a_pdf",
            cut: "truncated",
            endless: "too_large",
            missing: "not_found",
            mistyped: "",
        }
        assert all("media_paths" not in found[each] for each in (page, endless, missing))
        assert len(list((tmp_path / "data" / "images").rglob("*.pdf"))) == 3
        unwanted = found[other.parcel_id]
        assert unwanted["pdf_url"]
        assert not {"media_paths", "media_contents"} & unwanted.keys()

        bad.clear()
        asked = bills_asked_for(portal, whole)
        write_parcels(county, tmp_path)
        assert await crawls.run("iasworld", site=SITE, parcels="@parcels.csv") == FINISHED, crawls.said[-5000:]
        assert bills_asked_for(portal, whole) == asked, "it is there"
        found = latest(crawls)
        for parcel in county.parcels:
            assert kept(found[parcel.parcel_id], tmp_path) == bill_pdf(parcel)
            assert "problem" not in found[parcel.parcel_id]["media_contents"]["bill"]


def submit(crawls: Crawls, folder: Path, media: str) -> None:
    words = ["-a", f"site={SITE}", "-a", f"media={media}", "--input", "parcels.csv", "--key", "parcel_id"]
    submitted = run(HARVESTER, "jobs", "submit", "iasworld", *words, cwd=folder, env=crawls.environment)
    assert submitted.returncode == 0, submitted.stderr


def latest(crawls: Crawls) -> dict[str, dict[str, Any]]:
    """Parcel -> its bill of 2025."""
    return {each["parcel_id"]: each for each in crawls.documents("tax_bills").values() if each["bill"] == "2025"}


def kept(bill: dict[str, Any], folder: Path) -> bytes:
    """Its file."""
    return (folder / "data" / "images" / str(bill["media_paths"]["bill"])).read_bytes()


def bills_asked_for(portal: IasworldPortal, parcel: str) -> int:
    return sum(BILL in arrival.path and parcel[:7] in arrival.path for arrival in portal.arrivals)
