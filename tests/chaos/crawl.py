"""A crawl of the tree, with servers of its own, and what is to be seen of it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import redis
from pydantic import SecretStr

from harvester.config import Config
from harvester.frontier.messages import DeadLetter, FrontierStatus
from harvester.frontier.store import Frontier
from harvester.stores.redis import connect
from tests.chaos.killing import Killed, Killing, Plan, Servers
from tests.chaos.records import Document, TreeItem, documents
from tests.chaos.servers import Valkey
from tests.chaos.workers import Worker, Workers
from tests.crash.mongod import Mongod
from tests.ports import free_port
from tests.sandbox.tree import Tree
from tests.sandbox.tree_process import TreeSite

LEASE_S = 8
T = TypeVar("T")


class Crawl(NamedTuple):
    """Site, servers and workers of one crawl."""

    site: TreeSite
    servers: Servers
    workers: Workers
    config: Config
    """Names its Redis."""

    def expected(self) -> dict[str, Document]:
        return documents(self.site.tree, self.site.url)

    def stored(self) -> dict[str, Document]:
        """The records: key -> document without its provenance."""
        with self.servers.mongodb.client() as client:
            found = client["tree"][TreeItem.COLLECTION].find({}, {"provenance": 0})
            return {document.pop("_id"): document for document in found}

    def disturbed(self, plan: Plan) -> Killed:
        """Runs it on the frontier until it has ended by itself, through all the kills of the plan."""
        return Killing(plan, self.site, self.servers, self.workers, self.pending, self.held_by).run()

    def disturbed_on_stock(self, plan: Plan) -> Killed:
        """The same on scrapy-redis's queue, which does not know what was in flight."""
        with redis.Redis.from_url(self.servers.redis.uri) as queue:
            pending = lambda: int(queue.zcard("tree:requests"))  # noqa: E731
            return Killing(plan, self.site, self.servers, self.workers, pending, lambda worker: 0).run()

    def status(self) -> FrontierStatus:
        return asyncio.run(self._asked(Frontier.status))

    def dead(self) -> list[DeadLetter]:
        return asyncio.run(self._asked(Frontier.dead))

    async def _asked(self, question: Callable[[Frontier], Awaitable[T]]) -> T:
        client = connect(self.config)
        try:
            return await question(Frontier(client, "tree", "tree"))
        finally:
            await client.aclose()

    def pending(self) -> int:
        status = self.status()
        return status.ready + status.waiting + status.leased

    def held_by(self, worker: Worker) -> int:
        ours = f":{worker.process.pid}:"
        return sum(seen.leased for name, seen in self.status().workers.items() if ours in name)


@contextmanager
def crawl(
    pages: int | Tree, folder: Path, settings: str, poison: int = -1, program: str = "scrapy", **more_variables: str
) -> Iterator[Crawl]:
    """One that has not begun, of the tree (with so many pages), with workers that have these settings."""
    with (
        TreeSite(Tree(pages) if isinstance(pages, int) else pages) as site,
        Valkey(folder / "valkey", free_port()) as valkey,
        Mongod(folder / "mongodb", free_port()) as mongod,
    ):
        variables = {
            "HARVESTER_MONGODB_URI": mongod.uri,
            "HARVESTER_REDIS_URL": valkey.uri,
            "HARVESTER_DATABASE": "tree",
            "HARVESTER_LEASE_SECONDS": str(LEASE_S),
            **more_variables,
        }
        with Workers(site, folder / "crawl", settings, poison, variables, program=program) as workers:
            yield Crawl(site, Servers(valkey, mongod), workers, Config(redis_url=SecretStr(valkey.uri)))
