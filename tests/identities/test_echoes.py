"""A site that repeats what it knows of who asks makes no secret known: neither in a log nor in what is kept."""

import json
import os
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from bson import json_util
from pymongo.database import Database
from redis import Redis

from tests.forking import fork
from tests.identities.county import USERS, County
from tests.identities.entries import FORM, TOKEN, enter
from tests.identities.test_chains import LONGEST_S
from tests.root import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="file modes and signals")
USER = "o'neil@county"
WAYS = ("refused", "away", "nowhere", "json", "read")


def forms(secret: str) -> set[str]:
    plain = {secret, quote(secret, safe=""), escape(secret), json.dumps(secret)[1:-1]}
    return plain | {b64encode(secret.encode()).decode()[: len(secret) * 4 // 3]}


def dump(redis: Any, key: bytes) -> str:
    """All that a key holds."""
    reads = {b"hash": redis.hgetall, b"set": redis.smembers, b"stream": redis.xrange, b"string": redis.get}
    reads |= {b"zset": lambda key: redis.zrange(key, 0, -1), b"list": lambda key: redis.lrange(key, 0, -1)}
    return repr(reads[redis.type(key)](key))


async def test_echoed_secrets_reach_no_log_no_dead_letter_no_history_and_no_report(
    county: County, folder: Path, own_redis: str, mongodb_uri: str, mongodb: Database[dict[str, Any]]
) -> None:
    variables = enter(county, folder, FORM)
    async with County() as other:
        table = TOKEN.format(url=other.url, more="").replace("[county.", "[other.")
        (folder / "sites" / "other.toml").write_text(f'[other]\nhosts = ["{other.name}"]\n{table}')
        variables |= {"session_county_user": USER, "session_county_password": USERS[USER], "lease_seconds": "5"}
        variables |= {"parked_seconds": "1", "database": mongodb.name, "data_dir": str(folder / "data")}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
        environment |= {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}
        environment |= {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "tests.identities.settings"}
        environment |= {"REDIS_URL": own_redis, "MONGODB_URI": mongodb_uri}
        urls = " ".join(f"{each.url}/echo/{way}" for each in (county, other) for way in WAYS)
        process = await fork("scrapy", "crawl", "echoes", "-a", f"urls={urls}", cwd=folder, env=environment)
        out, said = await process.end(LONGEST_S)
        log = out + said
        for each in (county, other):
            assert {path.rpartition("/")[2] for path in each.echoes} == set(WAYS), log[-5000:]
        secrets = county.echoed | other.echoed
    assert {USER, USERS[USER]} < secrets
    assert len(secrets) == 4  # and a cookie, and a token
    with Redis.from_url(own_redis) as redis:
        keys = {key for key in redis.scan_iter() if not key.endswith(b"payloads")}
        kept = {key.decode(): dump(redis, key) for key in keys}
    runs = {name: json_util.dumps(list(mongodb[name].find())) for name in mongodb.list_collection_names()}
    reports = {str(path): path.read_text() for path in (folder / "data").rglob("*") if path.is_file()}
    [entries] = [text for key, text in kept.items() if key.endswith(":entries")]
    for said in ("HTTP 403 [forbidden] ***", "BadRequest: ***", "said=***", "ValueError: ***"):
        assert said in entries
    assert entries.count("no address") >= 2
    assert "runs" in runs
    assert any("reports" in path for path in reports)
    for where, text in {"the log": log, **kept, **runs, **reports}.items():
        for secret in secrets:
            for form in forms(secret):
                assert form not in text, where
