"""Whatever a site answers: each request has its outcome, memory is bounded, nobody else is asked, nothing is written
elsewhere. docs/security.md says what was found. To renew it: python -m tests.hostile"""

import os
from pathlib import Path
from typing import Any

from pymongo.database import Database

from tests.hostile import document
from tests.hostile.behaviours import BEHAVIOURS
from tests.hostile.run import run
from tests.hostile.site import HostileSite

MOST_MB = 400


async def test_a_hostile_site_harms_nobody(
    tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str, own_redis: str
) -> None:
    async with HostileSite() as site:
        found = await run(site, tmp_path, mongodb, mongodb_uri, own_redis)
    if "HOSTILE_WRITE" in os.environ:
        document.write(found)
    assert len(BEHAVIOURS) >= 60
    assert found.code == 0, found.log[-4000:]
    assert found.outcomes == {each.name: each.outcome for each in BEHAVIOURS}, found.reasons
    assert found.pictures == {each.name: each.picture for each in BEHAVIOURS if each.picture}
    asked = {each.name: site.asked[each.name, each.path] for each in BEHAVIOURS}
    assert {each.name: asked[each.name] for each in BEHAVIOURS if asked[each.name] > each.most_requests} == {}
    assert site.alarms == [], "nothing is asked of another port of this machine, under whatever name"
    assert site.unknown == []
    assert found.status.balanced
    assert found.status.ready + found.status.waiting + found.status.leased + found.status.parked == 0
    assert found.peak_mb < MOST_MB
    inside = ("a/b/c/data/", "a/b/c/.harvester/", "log", "peak", "told")
    assert [file for file in found.files if not file.startswith(inside)] == []
    assert "passwd" not in "".join(map(str, mongodb["traps"].find()))
    assert document.written() == document.table(found), "to renew it: python -m tests.hostile"
