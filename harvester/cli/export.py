"""The command `harvester export`."""

from pathlib import Path
from typing import Annotated

import typer

from harvester.config import load_config
from harvester.exceptions import UsageError

GRAPH = "graph"


def export_command(
    kind: Annotated[str, typer.Argument(help="A kind of record, or its collection; or graph: who follows whom.")],
    to: Annotated[Path, typer.Option(help=".jsonl, .csv, .parquet, .jsonl.zst or .csv.zst; of graph .graphml, too.")],
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUE", help="Also != < <= > >=, or JSON as MongoDB takes it; may be repeated."),
    ] = None,
    since: Annotated[str, typer.Option(metavar="DATE", help="Only what was observed since then, in UTC.")] = "",
) -> None:
    """Write all stored records of a kind into one file, while crawls may go on."""
    from pymongo.errors import PyMongoError

    from harvester.project import spider_loader
    from harvester.stores import export
    from harvester.stores.mongodb import connect_sync, unavailable

    spider_loader()  # with the spiders it imports the records of the project
    if kind == GRAPH and (where or since):
        raise UsageError("--where and --since choose records, and graph is all of it.")
    try:
        at = export.point_in_time(since) if since else None
    except ValueError:
        raise UsageError(f"--since: {since!r} is no date, as 2026-01-31 or 2026-01-31T12:00.") from None
    database = connect_sync(load_config())
    try:
        of = None if kind == GRAPH else export.kind_named(kind, database)
        query = export.query_of(of, where or (), at) if of else {}
        number = export.export_records(database, of, query, to) if of else export.export_graph(database, to)
    except PyMongoError as error:
        raise unavailable(error) from None
    finally:
        database.client.close()
    print(f"{number:,} {of.PLURAL if of else 'edges'} in {to}")
