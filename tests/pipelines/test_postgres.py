"""Records go into PostgreSQL as they come: none that MongoDB has is missing there, whatever becomes of either side."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from pydantic import SecretStr
from pymongo.database import Database

from harvester.config import Config
from harvester.items import Batch
from harvester.items.other import item_type
from harvester.pipelines.postgres import PostgresPipeline
from tests.jobs.running import FINISHED, Runs, Tree, records
from tests.pipelines.records import PAGE, crawler, post

AWAY, USAGE = 3, 2
"""Exit codes."""


@pytest.fixture
def schema(postgres_address: str) -> Iterator[str]:
    """The name of one of the test's own."""
    name = f"test_{uuid4().hex[:8]}"
    yield name
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(name)))


def column(address: str, schema: str, table: str, name: str = "_id") -> list[Any]:
    with psycopg.connect(address) as connection:
        query = SQL("SELECT {} FROM {} ORDER BY _id").format(Identifier(name), Identifier(schema, table))
        return [row[0] for row in connection.execute(query)]


@asynccontextmanager
async def writing(address: str, schema: str, config: Config) -> AsyncIterator[PostgresPipeline]:
    """A pipeline that is open, and closed behind it."""
    mine = {"postgres_uri": SecretStr(address), "postgres_schema": schema}
    pipeline = PostgresPipeline(crawler(), config.model_copy(update=mine))
    await pipeline.open_spider()
    try:
        yield pipeline
    finally:
        await pipeline.close_spider()


def drop_connections(address: str) -> None:
    """As a server does that is started anew."""
    with psycopg.connect(address) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'harvester' AND pid <> pg_backend_pid()"
        )


async def test_a_crawl_that_was_killed_and_lost_its_connection_leaves_the_same_records_in_both(
    tmp_path: Path,
    mongodb_uri: str,
    own_redis: str,
    mongodb: Database[dict[str, Any]],
    postgres_address: str,
    schema: str,
) -> None:
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    variables |= {"postgres_uri": postgres_address, "postgres_schema": schema}
    async with Tree(30) as tree, Runs(tmp_path, **variables) as runs:
        process = await runs.start(urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) > 20)
        await runs.kill(process)
        process = await runs.start(urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) > 40)
        drop_connections(postgres_address)
        assert await runs.end(process) == FINISHED, runs.said
        assert "INFO: PostgreSQL " in runs.said
        assert records(mongodb) == tree.records()
        assert set(column(postgres_address, schema, "leaves")) == tree.records()


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("postgresql://ann:secret@127.0.0.1:1/x", AWAY, "127.0.0.1/x"),
        ("postgresql://ann:se@cret@127.0.0.1/x", USAGE, "HARVESTER_POSTGRES_URI: "),
    ],
)
async def test_a_run_that_cannot_have_its_postgresql_asks_for_nothing_and_says_why(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[Any], address: str, code: int, said: str
) -> None:
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Tree(3) as tree, Runs(tmp_path, **variables, postgres_uri=address) as runs:
        assert await runs.run(urls=tree.url) == code, runs.said
        assert tree.arrivals == []
    assert said in runs.said
    assert "cret" not in runs.said


async def test_a_field_without_a_value_costs_no_row_and_says_nothing_of_its_type(
    postgres_address: str, schema: str, config: Config
) -> None:
    kind = item_type("shop")
    async with writing(postgres_address, schema, config) as pipeline:
        for name, was in (("a", None), ("b", None), ("c", "2.50"), ("d", None)):
            await pipeline.process_batch(Batch([kind.of({"name": name, "was": was}, ("name",), PAGE)]))
    assert column(postgres_address, schema, kind.COLLECTION, "was") == [None, None, "2.50", None]
    assert pipeline.stats.get_value("harvester/postgres/rejected") is None


async def test_fields_that_come_later_are_new_columns_and_files_stay_known(
    postgres_address: str, schema: str, config: Config
) -> None:
    kind = item_type("shop")
    async with writing(postgres_address, schema, config) as pipeline:
        await pipeline.process_batch(Batch([kind.of({"name": "a", "price": 1}, ("name",), PAGE), post(key="1")]))
        seen_again = [post(key="1", media_paths={"0": "a.jpg"}), post(key="1")]
        for record in (kind.of({"name": "b", "sizes": [1, 2]}, ("name",), PAGE), *seen_again):
            await pipeline.process_batch(Batch([record]))
    assert column(postgres_address, schema, kind.COLLECTION, "price") == [1, None]
    assert column(postgres_address, schema, kind.COLLECTION, "sizes") == [None, [1, 2]]
    assert column(postgres_address, schema, "posts", "media_paths") == [{"0": "a.jpg"}]
    assert pipeline.stats.get_value("harvester/postgres/rows/post") == 3
