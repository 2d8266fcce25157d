"""A county's portal in a process of its own: `python -m tests.sandbox.county_site PARCELS` prints its address."""

import asyncio
import os
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

from tests.crawling import Answer
from tests.root import ROOT
from tests.sandbox.county import County, Parcel
from tests.sandbox.county_iasworld import IasworldPortal, bill_pdf

BAD_ONES = 100
"""Of so many bills one is no PDF, one is cut short, and one is not there."""


class CountySite:
    """`with CountySite(2000) as site: ...site.entry_url...`; the process ends with the block, and with its parent."""

    def __init__(self, parcels: int) -> None:
        self.county = County(parcels)
        self.entry_url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.sandbox.county_site", str(len(self.county.parcels))]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout
        self.entry_url = self._process.stdout.readline().decode().strip()
        assert self.entry_url, f"the site ended with status {self._process.wait()} before it was ready"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def served(county: County) -> dict[str, Answer]:
    """Parcel -> what comes in place of its bill, for the bad ones."""
    bad = {
        10: lambda parcel: Answer(200, b"<html><p>Your bill is being made.</p></html>", kind="application/pdf"),
        11: lambda parcel: Answer(200, bill_pdf(parcel)[:300], kind="application/pdf"),
        12: lambda parcel: Answer(404, b"<html>There is none.</html>", kind="text/html"),
    }
    return {
        parcel.parcel_id: bad[number % BAD_ONES](parcel)
        for number, parcel in enumerate(county.parcels)
        if number % BAD_ONES in bad
    }


async def _serve(parcels: int) -> None:
    county = County(parcels)
    bad = served(county)

    def pdf(parcel: Parcel) -> Answer:
        return bad.get(parcel.parcel_id) or Answer(200, bill_pdf(parcel), kind="application/pdf")

    async with IasworldPortal(county) as portal:
        portal.pdf = pdf
        print(portal.entry_url, flush=True)
        await asyncio.Event().wait()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(_serve(int(sys.argv[1])))
