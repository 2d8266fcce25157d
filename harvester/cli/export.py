"""The command `harvester export`."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harvester.cli.configured import load_config
from harvester.exceptions import UsageError

if TYPE_CHECKING:
    from harvester.stores.postgres import Postgres
    from harvester.stores.tables import CsvOptions

GRAPH = "graph"
_SCHEMES = ("postgresql://", "postgres://")
Schema = Annotated[
    str, typer.Option(metavar="NAME", help="Of the tables in PostgreSQL; made if it is not there. Else: harvester.")
]


Excel = Annotated[
    bool,
    typer.Option(
        "--excel", help="Write CSV as Excel opens it: UTF-8 is marked, and cells that begin a formula are escaped."
    ),
]
EscapeFormulas = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="In CSV, put ' before texts that begin with = + - @: a spreadsheet program would run them.",
    ),
]


def csv_options(is_csv: bool, excel: bool, escape_formulas: bool) -> "CsvOptions":
    """Returns the CSV options of the command line. Raises UsageError when another kind of file is written."""
    from harvester.stores.tables import EXCEL, PLAIN_CSV

    if (excel or escape_formulas) and not is_csv:
        raise UsageError(f"{'--excel' if excel else '--escape-formulas'} is for CSV files, and no CSV file is written.")
    return EXCEL if excel else PLAIN_CSV._replace(escape_formulas=escape_formulas)


def opened_postgres(to: str, schema: str) -> "Postgres | None":
    """Connects to PostgreSQL at this address; None when `to` is a path. Raises UsageError, ServiceError."""
    if to.startswith(_SCHEMES):
        from harvester.stores.postgres import SCHEMA, Postgres

        return Postgres(to, schema or SCHEMA)
    if "://" in to:
        raise UsageError("--to: an address starts with postgresql://; anything else is a path.")
    if schema:
        raise UsageError("--schema is of tables in PostgreSQL: give --to postgresql://USER@HOST/DATABASE, too.")
    return None


def say_rejected(postgres: "Postgres") -> None:
    """Prints the table with the reasons, when PostgreSQL rejected some records."""
    from harvester.stores.postgres import REJECTS

    if postgres.rejected:
        print(
            f"{postgres.rejected:,} cannot be held by PostgreSQL: {postgres.schema}.{REJECTS} says which, and why.",
            file=sys.stderr,
        )


def export_command(
    kind: Annotated[str, typer.Argument(help="A kind of record, or its collection; or graph: who follows whom.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="FILE|postgresql://...",
            help=".jsonl, .csv, .parquet, .jsonl.zst or .csv.zst; of graph .graphml, too. Or a PostgreSQL.",
        ),
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUE", help="Also != < <= > >=, or JSON as MongoDB takes it; may be repeated."),
    ] = None,
    since: Annotated[str, typer.Option(metavar="DATE", help="Only what was observed since then, in UTC.")] = "",
    schema: Schema = "",
    excel: Excel = False,
    escape_formulas: EscapeFormulas = False,
) -> None:
    """Write all stored records of a kind into one file, or a table of PostgreSQL, while crawls may go on."""
    from pymongo.errors import PyMongoError

    from harvester.dashboard.panel import records_listed
    from harvester.formatting import counted
    from harvester.project import spider_loader
    from harvester.stores import export
    from harvester.stores.mongodb import connect_sync, unavailable

    spider_loader()  # importing the spiders also registers the record kinds of the project
    if kind == GRAPH and (where or since):
        raise UsageError("--where and --since choose records, and graph is all of it.")
    try:
        at = export.point_in_time(since) if since else None
    except ValueError:
        raise UsageError(f"--since: {since!r} is no date, as 2026-01-31 or 2026-01-31T12:00.") from None
    if kind == GRAPH and "://" in to:
        raise UsageError("graph is written into files; in PostgreSQL it is the table of follows.")
    options = csv_options(to.endswith((".csv", ".csv.zst")), excel, escape_formulas)
    with opened_postgres(to, schema) or nullcontext() as postgres:
        database = connect_sync(load_config())
        try:
            of = None if kind == GRAPH else export.kind_named(kind, database)
            query = export.query_of(of, where or (), at) if of else {}
            if of and postgres:
                number = export.export_to_postgres(database, of, query, postgres)
            elif of:
                number = export.export_records(database, of, query, Path(to), options)
            else:
                number = export.export_graph(database, Path(to), options)
        except PyMongoError as error:
            raise unavailable(error) from None
        finally:
            database.client.close()
    place = f"{postgres.schema}.{of.COLLECTION} of {postgres.place}" if postgres and of else Path(to)
    print(f"{records_listed({of.KIND: number}) if of else counted(number, 'edge')} in {place}")
    if postgres:
        say_rejected(postgres)
