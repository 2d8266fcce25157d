"""Pictures and PDFs on their way to S3 while the server, and the crawl, are killed: none is missing, none is half."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harvester.exceptions import StorageError
from harvester.sandbox.pdf import pdf
from tests.images.conftest import Run, S3Server
from tests.images.samples import encoded, noise
from tests.images.server import Site
from tests.images.test_crawl import ALICE, post, wait_until

EACH = 25
"""Pictures, and PDFs, of a run that is disturbed."""
BUCKET = "harvest"
STORAGE = StorageError.exit_code
Stored = dict[str, bytes]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    server = S3Server(tmp_path)
    server.start()
    yield server
    server.end()


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_no_file_is_missing_or_half_when_the_s3_server_and_the_crawl_are_killed_in_mid_upload(
    crawl: Callable[..., Run], site: Site, server: S3Server
) -> None:
    with server.client() as s3:
        s3.create_bucket(Bucket=BUCKET)
    where = {**server.variables, "HARVESTER_IMAGES_STORE": f"s3://{BUCKET}/files"}
    files: Stored = {}
    batches = []
    for number, victim in enumerate(("server", "server", "crawl")):
        batches.append(batch := list(published(site, files, number)))
        before = len(keys(server))
        site.open_gate.clear()
        run = crawl([batch], where)
        wait_until(lambda: len(keys(server)) >= before + 5)  # noqa: B023  it waits here
        if victim == "crawl":
            run.end(signal.SIGKILL)
            continue
        server.end(signal.SIGKILL)
        site.open_gate.set()
        server.start()
        run.end()
        finished = run.stats["finish_reason"] == "finished"  # if the uploads were tried again for long enough
        assert finished or run.stats["harvester/exit_code"] == STORAGE
        assert len(run.records) == (len(batch) if finished else 0), "none is confirmed whose file may be missing"
    site.open_gate.set()
    last = crawl(batches, where).end()

    assert last.stats["finish_reason"] == "finished"
    assert stored(server) == files
    assert {path for record in last.records for path in record["media_paths"].values()} == set(files)
    texts = [record["media_contents"]["bill"]["text"] for record in last.records if "parcel_id" in record]
    assert sorted(texts) == sorted(f"Tax bill {path}" for path in files if path.endswith(".pdf"))


def published(site: Site, files: Stored, number: int) -> Iterator[dict[str, Any]]:
    """Records with files that the site has from now on. The last ones do not come before the gate is open."""
    for n in range(EACH):
        name, gate = f"{number}x{n}", "gated/" if n > EACH - 4 else ""
        picture, bill = f"{ALICE}/posts/bafy{name}_0.jpg", f"us-mi-made-up/tax_bills/2025/{name}.pdf"
        files[picture] = site.bodies[f"{name}.jpg"] = encoded(noise((600, 400)), "JPEG", quality=95)
        padding = b"%" + Random(name).randbytes(100_000).hex().encode()
        body = pdf([f"Tax bill {bill}"]).replace(b"startxref", padding + b"\nstartxref")
        files[bill] = site.bodies[f"{name}.pdf"] = body
        yield post(f"bafy{name}", f"{site.origin}/{gate}{name}.jpg")
        yield {"parcel": name, "pdf": f"{site.origin}/{gate}{name}.pdf"}


def keys(server: S3Server) -> list[str]:
    """Of what the bucket holds."""
    with server.client() as s3:
        return [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())]


def stored(server: S3Server) -> Stored:
    """What it holds."""
    with server.client() as s3:
        found = {key: s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys(server)}
    return {key.removeprefix("files/"): body for key, body in found.items()}
