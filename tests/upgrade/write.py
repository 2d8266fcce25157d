"""Writes `stored/`: what an installation of the commit 3f866550 leaves when its processes are killed.

It was run by the code of that commit, in a checkout of it with this folder copied into its tests:

    git worktree add --detach OLD 3f866550 && make -C OLD setup
    cp -r tests/upgrade OLD/tests/ && cd OLD && .venv/bin/python -m tests.upgrade.write

and `OLD/tests/upgrade/stored` was copied back. The commands are run as a person types them; nothing of the code is
called but what starts the servers.
"""

import asyncio
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from pymongo import MongoClient
from redis import Redis

from harvester.config import Config
from harvester.stores import servers
from tests.upgrade.installation import (
    ACTIVE,
    BROKEN,
    DATABASE,
    DEFERRED,
    DONE,
    LATER,
    PROJECT,
    RECEIVER,
    Oak,
    of_mongodb,
    of_redis,
)

STORED = Path(__file__).parent / "stored"
PROGRAMS = Path(sys.executable).parent


class Installation:
    """A folder with a project, and servers."""

    def __init__(self, folder: Path, mongodb_uri: str, redis_url: str) -> None:
        self.folder = folder
        self._environment = os.environ | {"HARVESTER_MONGODB_URI": mongodb_uri, "HARVESTER_REDIS_URL": redis_url}
        self._environment["PATH"] = f"{PROGRAMS}:{os.environ['PATH']}"
        for name, text in PROJECT.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)

    async def begin(self, command: str) -> asyncio.subprocess.Process:
        with (self.folder.parent / "log").open("a") as log:
            return await asyncio.create_subprocess_exec(
                *command.split(), cwd=self.folder, env=self._environment, stdout=asyncio.subprocess.PIPE, stderr=log
            )

    async def run(self, command: str) -> str:
        """What it prints. Fails when it fails."""
        process = await self.begin(command)
        out, _ = await process.communicate()
        assert process.returncode == 0, f"{command}: {process.returncode}\n{(self.folder.parent / 'log').read_text()}"
        return out.decode()

    async def json(self, command: str) -> Any:
        return json.loads(await self.run(f"{command} --json"))

    async def kill_when(self, command: str, spider: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Runs a command, kills it once the spider's frontier is so, and tells how it is then."""
        process = await self.begin(command)
        while not condition((await self.json(f"harvester frontier status {spider}"))["status"]):
            assert process.returncode is None, (self.folder.parent / "log").read_text()
        family = psutil.Process(process.pid)
        for each in (*family.children(recursive=True), family):
            each.kill()
        await process.wait()
        status: dict[str, Any] = (await self.json(f"harvester frontier status {spider}"))["status"]
        return status


async def write(folder: Path, mongodb_uri: str, redis_url: str) -> dict[str, Any]:
    """Does what a person does in some weeks; what is told then."""
    ours = Installation(folder, mongodb_uri, redis_url)
    told: dict[str, Any] = {}
    async with Oak() as site:
        site.bad |= {LATER, BROKEN, f"/parcel/{DEFERRED}"}
        site.held, site.first = ("reviews", "product"), 25
        told["shop"] = await ours.kill_when(
            "harvester crawl shop",
            "shop",
            lambda now: now["done"] > 20 and all(now[name] for name in ("ready", "leased", "waiting", "dead")),
        )
        await ours.run("harvester crawl endpoints -a endpoints=@endpoints.toml")
        told["webhook"] = await ours.json(f"harvester webhooks add {RECEIVER}")
        submit = "harvester jobs submit parcels --input"
        told["may"] = (await ours.json(f"{submit} may.csv --name May --idempotency-key may --priority 3"))["job"]
        site.held, site.first = ("tax",), len(DONE)
        told["parcels"] = await ours.kill_when(
            f"harvester jobs run {told['may']}",
            "parcels",
            lambda now: now["leased"] == len(ACTIVE) and not now["ready"],
        )
        told["june"] = (await ours.json(f"{submit} june.csv --name June"))["job"]
        words = f"schedule add leap --job {told['june']} --zone Europe/Berlin --overlap queue --cron".split()
        process = await asyncio.create_subprocess_exec(
            PROGRAMS / "harvester", *words, "0 3 29 2 *", cwd=folder, env=ours._environment
        )
        assert await process.wait() == 0
        told["schedules"] = await ours.json("harvester schedule list")
        told["token"] = await ours.json("harvester tokens add Ann --scope operate")
        told["jobs"] = await ours.json("harvester jobs list")
        told["endpoints"] = await ours.json("harvester endpoints list")
    return told


def pack(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        archive.add(folder, ".", filter=lambda each: None if "__pycache__" in each.name else each)
    return buffer.getvalue()


def main() -> None:
    with TemporaryDirectory() as place:
        folder = Path(place) / "installation"
        folder.mkdir()
        config = Config(state_dir=Path(place) / "servers")
        mongodb_uri, redis_url = servers.mongodb_uri(config), servers.redis_url(config)
        told = asyncio.run(write(folder, mongodb_uri, redis_url))
        STORED.mkdir(exist_ok=True)
        with MongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client, Redis.from_url(redis_url) as redis:
            (STORED / "mongodb.bson.xz").write_bytes(of_mongodb(client[DATABASE]))
            (STORED / "redis.msgpack.xz").write_bytes(of_redis(redis))
        (STORED / "folder.tar.xz").write_bytes(pack(folder))
        (STORED / "told.json").write_text(json.dumps(told, indent=1) + "\n")
        print((Path(place) / "log").read_text())
        servers.leave()


if __name__ == "__main__":
    main()
