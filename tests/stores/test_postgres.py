"""Rows in PostgreSQL: with their types, the newer one of two, and each one either as it is or named with a reason."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from threading import Thread
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from psycopg.sql import SQL, Identifier

from harvester.exceptions import ServerAway, ServiceError, UsageError
from harvester.items import RECORDS
from harvester.stores.postgres import MOST_NAME_BYTES, REJECTS, Postgres, PostgresTable, Version, column_name
from harvester.stores.tables import Column, columns_of
from tests.postgresql import PASSWORD
from tests.root import ROOT

Row = dict[str, Any]
AT = datetime(2026, 1, 31, 12, 30, 15, 250_000, UTC)
VERSION = Version("seen_at", "run", "year", "gone_at")
OF_VERSION = [
    Column("_id", str),
    Column("seen_at", datetime),
    Column("run", str),
    Column("year", int),
    Column("gone_at", datetime),
    Column("said", str),
]


@pytest.fixture
def to(postgres_address: str) -> Iterator[Postgres]:
    """A schema of the test's own, with a name that must be quoted."""
    with Postgres(postgres_address, f'Of "test" {uuid4().hex[:8]}') as made:
        yield made
        made.connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(made.schema)))


def table(to: Postgres, *columns: Column, name: str = "things", vary: bool = False) -> PostgresTable:
    return PostgresTable(to, name, [Column("_id", str), *columns], Version("_id"), vary=vary)


def rows(to: Postgres, name: str = "things", what: str = "*") -> list[tuple[Any, ...]]:
    query = SQL("SELECT {} FROM {} ORDER BY 1, 2").format(SQL(what), to.qualified(name))
    return to.connection.execute(query).fetchall()


def reasons(to: Postgres) -> dict[str, str]:
    return dict(rows(to, REJECTS, "key, reason"))


@pytest.mark.parametrize(
    ("kind", "value", "of", "as_text"),
    [
        (str, "Ärger, \\N \t\n'\"\\", "text", None),
        (str, "", "text", None),
        (str, "x" * 5_000_000, "text", None),
        (int, -(2**63), "bigint", None),
        (float, 0.1, "double precision", "0.1"),
        (float, 7, "double precision", "7"),
        (bool, True, "boolean", "true"),
        (Decimal, Decimal128("1234567890123456789012345678901.50"), "numeric", "1234567890123456789012345678901.50"),
        (Decimal, Decimal128("1E+30"), "numeric", "1" + 30 * "0"),
        (datetime, AT, "timestamp with time zone", "2026-01-31 12:30:15.25+00"),
        (datetime, datetime(1, 1, 1, tzinfo=UTC), "timestamp with time zone", "0001-01-01 00:00:00+00"),
        (datetime, DatetimeMS(-63_517_824_000_000), "timestamp with time zone", "0044-03-15 00:00:00+00 BC"),
        (datetime, DatetimeMS(253_402_300_800_000), "timestamp with time zone", "10000-01-01 00:00:00+00"),
        (date, "2024-02-29", "date", None),
        (object, {"b": [1, "\\u0000 is written out", None], "at": AT}, "jsonb", None),
        (str, None, "text", None),
    ],
)
def test_a_value_is_stored_with_its_type_as_it_is(
    to: Postgres, kind: type, value: Any, of: str, as_text: str | None
) -> None:
    table(to, Column("it", kind)).write([{"_id": "1", "it": value}])
    to.connection.execute("SET timezone = 'UTC'")
    ((typed, said),) = rows(to, what="pg_typeof(it)::text, it::text")
    assert (typed, reasons(to)) == (of, {})
    if as_text:
        assert said == as_text
        return
    ((stored, _),) = rows(to, what="it, 1")
    if kind is object:
        assert stored == {**value, "at": "2026-01-31T12:30:15.250000Z"}
    elif kind is date:
        assert stored == date.fromisoformat(value)
    else:
        assert stored == value


def test_a_number_that_is_not_finite_is_a_missing_value(to: Postgres) -> None:
    table(to, Column("it", float)).write([{"_id": "1", "it": float("nan")}])
    ((stored, _),) = rows(to, what="it, 1")
    assert (stored, reasons(to)) == (None, {})


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (str, "a\0b", "NUL"),
        (str, "a\ud800b", "surrogate"),
        (str, 3, "it: '3' (int) "),
        (int, 2**63, "it: '9223372036854775808' (int) "),
        (int, True, "it: 'True' (bool) "),
        (int, 2.5, "it: '2.5' (float) "),
        (float, 2**53 + 1, "it: '9007199254740993' (int) "),
        (bool, 1, "it: '1' (int) "),
        (Decimal, "12", "it: '12' (str) "),
        (datetime, "2026-01-31", "it: '2026-01-31' (str) "),
        (datetime, DatetimeMS(2**62), "PostgreSQL"),
        (date, "0044-03-15 BC", "it: '0044-03-15 BC' (str) "),
        (date, "2023-02-29", "it: '2023-02-29' (str) "),
        (object, {"a": ["x\0"]}, "NUL"),
        (object, {"a\0": 1}, "NUL"),
        (object, [float("nan")], " nan"),
        (object, {"a": "\udc00"}, "JSON"),
    ],
)
def test_a_row_that_cannot_be_held_is_named_with_its_reason_and_the_others_are_stored(
    to: Postgres, kind: type, value: Any, reason: str
) -> None:
    made = table(to, Column("it", kind))
    made.write([{"_id": "1"}, {"_id": "2", "it": value}, {"_id": "3"}])
    assert [key for key, _ in rows(to)] == ["1", "3"]
    assert (made.rows, to.rejected) == (2, 1)
    ((key, said),) = reasons(to).items()
    assert key == "2"
    assert reason in said


def test_what_only_postgresql_refuses_costs_no_other_row(to: Postgres) -> None:
    """A key that is too long for an index is found among many by halves."""
    unlike = "".join(uuid4().hex for _ in range(200))
    made = table(to)
    made.write([{"_id": f"{n}{unlike if n in (5, 700) else ''}"} for n in range(1000)])
    assert (made.rows, len(rows(to, what="_id, 1"))) == (998, 998)
    assert sorted(reasons(to)) == [f"5{unlike}", f"700{unlike}"]
    assert "index row size" in reasons(to)[f"5{unlike}"]


def test_a_row_that_can_be_held_at_last_is_rejected_no_more(to: Postgres) -> None:
    for text in ("a\0", "a"):
        table(to, Column("it", str)).write([{"_id": "1", "it": text}])
    assert (rows(to), reasons(to)) == ([("1", "a")], {})


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        ({"seen_at": 0, "run": "a"}, {"seen_at": 1, "run": "b"}, "second"),
        ({"seen_at": 1, "run": "a"}, {"seen_at": 0, "run": "b"}, "first"),
        ({"seen_at": 1, "run": "a"}, {"seen_at": 1, "run": "a"}, "second"),
        ({"seen_at": 0, "run": "a", "year": 2026}, {"seen_at": 1, "run": "a", "year": 2025}, "first"),
        ({"seen_at": 0, "run": "a", "year": 2026}, {"seen_at": 1, "run": "b", "year": 2025}, "second"),
        ({"seen_at": 1, "run": "a", "year": 2025}, {"seen_at": 0, "run": "a", "year": 2026}, "second"),
        ({"seen_at": 1, "run": "a"}, {"seen_at": 0, "run": "a", "year": 2026}, "second"),
        ({"seen_at": 0, "run": "a", "gone_at": 2}, {"seen_at": 1, "run": "a"}, "first"),
        ({"seen_at": 0, "run": "a", "gone_at": 2}, {"seen_at": 3, "run": "a"}, "second"),
    ],
)
def test_a_newer_version_replaces_an_older_one_and_never_the_other_way_round(
    to: Postgres, first: Row, second: Row, stays: str
) -> None:
    for said, row in (("first", first), ("second", second)):
        times = {name: AT + timedelta(hours=value) for name, value in row.items() if name.endswith("_at")}
        made = PostgresTable(to, "things", OF_VERSION, VERSION, vary=False)
        made.write([{"_id": "1", **row, **times, "said": said}])
    assert rows(to, what="said, 1") == [(stays, 1)]


def test_a_table_gets_the_columns_that_it_lacks_and_keeps_its_rows(to: Postgres) -> None:
    table(to, Column("a", int)).write([{"_id": "1", "a": 1}])
    table(to, Column("b.c", date), Column("A", bool)).write([{"_id": "2", "b": {"c": "2026-01-31"}, "A": True}])
    assert rows(to, what='_id, a, b_c, "A"') == [("1", 1, None, None), ("2", None, date(2026, 1, 31), True)]


def test_a_table_with_a_column_of_another_type_is_refused(to: Postgres) -> None:
    to.connection.execute(SQL("CREATE TABLE {} (_id text PRIMARY KEY, a numeric(9,2))").format(to.qualified("things")))
    with pytest.raises(UsageError, match=r"things .*numeric\(9,2\).* numeric:"):
        table(to, Column("a", Decimal))


def test_a_value_that_is_unlike_its_column_since_an_earlier_export_is_rejected(to: Postgres) -> None:
    """It is not made a text, or a number, on the way."""
    table(to, Column("a", str)).write([{"_id": "1", "a": "x"}])
    table(to, Column("a", int)).write([{"_id": "2", "a": 5}, {"_id": "3", "a": "5"}])
    assert rows(to) == [("1", "x"), ("3", "5")]
    assert reasons(to) == {"2": reasons(to)["2"]}
    assert reasons(to)["2"].startswith("a: '5' (int) ")


def test_a_field_that_can_be_no_column_is_a_reason(to: Postgres) -> None:
    long = "n" * (MOST_NAME_BYTES + 1)
    columns = [Column(long, str), Column("a.b", str), Column("a_b", str)]
    made = table(to, *columns, vary=True)
    made.write([{"_id": "1"}, {"_id": "2", long: "x"}, {"_id": "3", "a_b": "x"}, {"_id": "4", "late": 1}])
    assert rows(to) == [("1", None)]
    fields = {"2": long, "3": "a_b", "4": "late"}
    assert {key: repr(fields[key]) in reason for key, reason in reasons(to).items()} == dict.fromkeys(fields, True)


def test_a_point_in_the_name_of_a_field_costs_no_value(to: Postgres) -> None:
    made = table(to, Column("No.", int), Column("a.b", str), Column("provenance.url", str), vary=True)
    made.write([{"_id": "1", "No.": 7, "a.b": "x", "provenance": {"url": "u"}}])
    assert (rows(to), reasons(to)) == ([("1", 7, "x", "u")], {})


def test_an_export_that_was_interrupted_is_repeated_with_the_same_result(to: Postgres, postgres_address: str) -> None:
    documents = [{"_id": f"{n:05}", "a": n} for n in range(5000)]
    with Postgres(postgres_address, to.schema) as cut:
        made = table(cut, Column("a", int))
        made.write(documents[:2500])
        to.connection.execute("SELECT pg_terminate_backend(%s)", [cut.connection.info.backend_pid])
        with pytest.raises(ServiceError, match="same command"):
            made.write(documents[2500:])
    assert len(rows(to)) == 2500
    table(to, Column("a", int)).write(documents)
    assert rows(to) == [(row["_id"], row["a"]) for row in documents]


def test_several_may_make_the_same_table_at_once(postgres_address: str) -> None:
    schema, failed = f"test_{uuid4().hex[:8]}", []

    def write(name: str) -> None:
        try:
            with Postgres(postgres_address, schema) as own:
                table(own, Column("a", int)).write([{"_id": f"{name}{n}"} for n in range(10)])
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with Postgres(postgres_address, schema) as to:
        assert len(rows(to)) == 40
        to.connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            lambda url: url.replace("postgres:", "nobody:"),
            "password authentication failed for user",
        ),
        (
            lambda url: url.removesuffix("postgres") + "missing",
            'database "missing" does not exist',
        ),
        (lambda url: re.sub(r":\d+/", ":1/", url), "refused"),
        (lambda url: url.replace("127.0.0.1", "no.host.invalid"), "no.host.invalid"),
    ],
)
def test_a_server_that_lets_nobody_in_is_said_without_the_password(
    postgres_address: str, changed: Callable[[str], str], said: str
) -> None:
    with pytest.raises(ServiceError) as raised:
        Postgres(changed(postgres_address))
    assert re.search(f"/\\w+ .*: .*{said}", str(raised.value))
    assert "PGPASSWORD" in str(raised.value)
    assert not any(form in str(raised.value) for form in (PASSWORD, quote(PASSWORD, safe="")))


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:hunter2/3@db.example/shop",
        "postgresql://ann:hunter@2@db.example/shop",
        "postgresql://ann:hunter2@db.example:port/shop",
        "postgresql://ann:hunter2@db.example/shop?colour=red",
        "postgresql://ann:hunter%zz2@db.example/shop",
        "postgresql://ann:hunter2@[::1/shop",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UsageError, match="--to: ") as raised:
        Postgres(address)
    assert "hunter" not in str(raised.value)


@pytest.mark.parametrize("schema", ["pg_mine", "", "s" * 64, "a\0b"])
def test_a_schema_that_cannot_be_is_refused(schema: str) -> None:
    with pytest.raises(UsageError, match="--schema: "):
        Postgres("postgresql://db.example/shop", schema)


def test_a_server_that_cancels_what_takes_long_is_not_away(to: Postgres) -> None:
    """Who waited until it is back would wait for ever."""
    to.connection.execute("SET statement_timeout = 10")
    with (
        pytest.raises(ServiceError, match="cancels") as raised,
        to.transaction(),
    ):
        to.connection.execute("SELECT pg_sleep(60)")
    assert not isinstance(raised.value, ServerAway)


def test_a_user_without_the_right_to_write_is_told_what_is_missing(to: Postgres, postgres_address: str) -> None:
    user = f"reader_{uuid4().hex[:8]}"
    to.connection.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'reading'").format(Identifier(user)))
    try:
        address = re.sub("//.*@", f"//{user}:reading@", postgres_address)
        for schema, said in ((to.schema, "permission denied for schema"), ("new", "permission denied for database")):
            with (
                pytest.raises(ServiceError, match=f"{said}.* own the schema"),
                Postgres(address, schema) as own,
            ):
                table(own)
    finally:
        to.connection.execute(SQL("DROP ROLE {}").format(Identifier(user)))


def test_every_record_type_has_a_column_of_its_own_for_each_field() -> None:
    for kind in RECORDS.values():
        names = [column_name(column.name) for column in columns_of(kind)]
        assert len(names) == len(set(names)), kind


def test_without_the_package_it_is_said_what_to_install() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from harvester.exceptions import UsageError\n"
        "try: import harvester.stores.postgres\n"
        "except UsageError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("pip install 'harvester[postgres]'\n")
    assert psycopg.__version__ >= "3"
