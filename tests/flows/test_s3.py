"""Files of flows on their way to S3 while the server, and the crawl, are killed: none is missing, none is half."""

import asyncio
import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.exceptions import StorageError
from tests.flows.conftest import Flows
from tests.flows.site import FlowSite
from tests.flows.test_crawl import COLLECTED, county
from tests.images.conftest import S3Server
from tests.jobs.running import FINISHED

ROWS, BUCKET = 16, "flows"
LONGEST_S, STEP_MS = 800, 30_000
"""Of a process, and of a step, on a busy machine."""
FILES = {"page.html", "page.png", "page.pdf", "download-1-bill.pdf", "captured-1.json"}
"""Of a row."""


def digests(server: S3Server) -> dict[str, str]:
    """Address -> SHA-256 of all that is stored."""
    found = {}
    with server.client() as s3:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            for key in (each["Key"] for each in page.get("Contents", ())):
                body = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
                found[f"s3://{BUCKET}/{key}"] = hashlib.sha256(body).hexdigest()
    return found


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_no_file_of_a_row_is_missing_or_half_when_the_s3_server_and_the_crawl_are_killed_in_mid_upload(
    flows: Flows, mongodb: Database[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "s3").mkdir()
    server = S3Server(tmp_path / "s3")
    await asyncio.to_thread(server.start)
    given = {"recording": "flow.json", "inputs": "@rows.csv"}

    async def until_stored(more: int) -> None:
        before = len(await asyncio.to_thread(digests, server))
        while len(await asyncio.to_thread(digests, server)) < before + more:
            assert any(process.returncode is None for process in flows.processes), flows.said

    try:
        with server.client() as s3:
            s3.create_bucket(Bucket=BUCKET)
        flows.environment.update(server.variables, HARVESTER_IMAGES_STORE=f"s3://{BUCKET}/files")
        async with FlowSite() as site:
            flows.write(COLLECTED, json.dumps(json.loads(county(site)) | {"timeout": STEP_MS}))
            flows.rows([f"010-{number}" for number in range(ROWS)])
            process = await flows.start("flow", **given)
            await until_stored(7)
            await asyncio.to_thread(server.end, signal.SIGKILL)
            await asyncio.to_thread(server.start)
            assert await flows.end(process, LONGEST_S) in (FINISHED, StorageError.exit_code), flows.said
            first = mongodb["flow"].count_documents({})
            if first < ROWS:
                process = await flows.start("flow", **given)
                await until_stored(7)
                await flows.kill(process)
                assert await flows.end(await flows.start("flow", **given), LONGEST_S) == FINISHED, flows.said
        stored = await asyncio.to_thread(digests, server)
    finally:
        await asyncio.to_thread(server.end)
    known = {
        file["path"]: file["sha256"]
        for row in mongodb["flow"].find()
        for name, file in row["files"].items()
        if name in FILES
    }
    assert len(known) == ROWS * len(FILES)
    assert stored == known
    print(f"\n{ROWS} rows, {len(known)} files; {first} rows were done when the server had been killed")
