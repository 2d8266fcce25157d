"""Writes rows into PostgreSQL tables: a typed column for each field. A newer row replaces an older one.

Rows are written in chunks, each in a transaction. So a table may have any size, and an interrupted export can be
repeated with the same result. A row that PostgreSQL cannot hold is left out, and the table REJECTS has the reason.
"""

import hashlib
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, Self

import msgspec
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128

from harvester.exceptions import ServerAway, ServiceError, StorageError, UsageError
from harvester.items import Record
from harvester.items.base import GONE_AT
from harvester.masking import mask
from harvester.stores.tables import CHUNK, Column, Row, in_json, values_of

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.sql import SQL, Composed, Identifier
except ImportError:
    raise UsageError("PostgreSQL needs a package: pip install 'harvester[postgres]'") from None

SCHEMA = "harvester"
"""Default schema."""
REJECTS = "_rejects"
"""Table of rows that no other table holds. No collection has such a name."""
CODEC: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO)
"""Codec for reading from MongoDB that also reads times before the year 1 and after 9999."""
MOST_BYTES = 16 * 1024 * 1024
"""Maximum number of characters of a chunk. A single row may have more."""
MOST_COLUMNS = 1500
"""Maximum number of columns. PostgreSQL allows 1,600 and counts dropped ones."""
MOST_NAME_BYTES = 63
_EXAMPLE = "Give one like postgresql://user@db.example:5432/database (in a password @ : / % are %40 %3A %2F %25)"
_TYPES: Mapping[type, str] = {
    str: "text",
    int: "bigint",
    float: "double precision",
    bool: "boolean",
    Decimal: "numeric",
    datetime: "timestamp with time zone",
    date: "date",
    object: "jsonb",
}
_KINDS = {name: kind for kind, name in _TYPES.items()}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_MS = 146_097 * 86_400_000
"""Milliseconds of 400 years, the cycle of the calendar."""
_is_date = re.compile(r"\d{4}-\d\d-\d\d").fullmatch
_OF_THE_ROW = ("22", "23", "54")
"""Classes of errors that concern a row: its values, its keys, its size."""
_NO_ROOM = "53100"
_CANCELLED = "57014"
_AWAY = ("08", "57P")


class Version(NamedTuple):
    """Columns that decide which of two rows with the same key stays."""

    at: str
    """Column of the time. The later row stays; if the times are equal, the new row."""
    run: str = ""
    """Column of the run. Between rows with the same run, the larger `number` decides."""
    number: str = ""
    gone: str = ""
    """Column of the time when the row was missing.

    An earlier observation of the same run does not bring the row back.
    """


class _Unfit(ValueError):
    """A row that PostgreSQL cannot hold. The text has the reason."""


def column_name(name: str) -> str:
    """Returns the column for a field. A point in the name would require quotes in each query."""
    return name.replace(".", "_")


def version_of(kind: type[Record], columns: Sequence[Column]) -> Version:
    """Returns the version columns. Records replace each other as they do in MongoDB (pipelines/mongo.py)."""
    names = {column.name for column in columns}
    gone = GONE_AT if GONE_AT in names else ""
    return Version("provenance_fetched_at", "provenance_crawl", kind.VERSION, gone)


class Postgres:
    """A schema of a database, over one connection. Use it in a `with`."""

    def __init__(self, address: str, schema: str = SCHEMA, *, named: str = "--to") -> None:
        """Connects and makes the schema.

        Raises UsageError for an invalid address or name, ServiceError when the server refuses. `named` is the option
        that the address was given by.
        """
        if not _is_name(schema) or schema.startswith("pg_"):
            raise UsageError(f"--schema: {schema!r} is no name for a schema: 1 to {MOST_NAME_BYTES} bytes, no pg_.")
        self.schema = schema
        self.rejected = 0
        options = _options(address, named)
        host = options.get("host") or os.environ.get("PGHOST", "localhost")
        self.place = f"{host}/{options.get('dbname', '')}".rstrip("/")
        try:
            self.connection = psycopg.connect(**options, autocommit=True)
        except (psycopg.Error, UnicodeError) as error:
            remedy = "Check host, port, user, password (or PGPASSWORD, ~/.pgpass), and that the database is there."
            raise ServerAway(
                f"PostgreSQL at {self.place} does not let harvester in: {_said(error)}. {remedy}"
            ) from None
        try:
            with self.transaction():
                self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Runs a transaction. Raises ServiceError and StorageError for all errors except errors about a row."""
        try:
            with self.connection.transaction():
                yield
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(_OF_THE_ROW):
                raise
            raise self._fault(error) from None

    def qualified(self, table: str) -> Identifier:
        """Returns the quoted name of a table."""
        return Identifier(self.schema, table)

    def lock(self) -> None:
        """Blocks other harvesters from making or altering tables here until the transaction ends.

        Two at the same time would clash.
        """
        self.connection.execute("SELECT pg_advisory_xact_lock(hashtext('harvester'), hashtext(%s))", [self.schema])

    def columns(self, table: str) -> dict[str, str]:
        """Returns the columns of a table with their types; empty if the table is missing."""
        query = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " JOIN pg_class ON attrelid = pg_class.oid JOIN pg_namespace ON relnamespace = pg_namespace.oid"
            " WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped"
        )
        return dict(self.connection.execute(query, [self.schema, table]).fetchall())

    def reject(self, table: str, key: str, reason: str) -> None:
        """Writes the reason why a row is not in its table."""
        query = SQL(
            "INSERT INTO {} VALUES (%s, %s, %s, %s, now())"
            " ON CONFLICT (id) DO UPDATE SET reason = excluded.reason, at = excluded.at"
        ).format(self.qualified(REJECTS))
        words = [_printable(text) for text in (table, key, mask(reason))]
        words.insert(0, hashlib.sha256(f"{table} {words[1]}".encode()).hexdigest())  # keys may be too long for an index
        with self.transaction():
            self.connection.execute(query, words)
        self.rejected += 1

    def _prepare(self) -> None:
        self.lock()
        if not self.connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [self.schema]).rowcount:
            self.connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(self.schema)))
        if not self.columns(REJECTS):
            query = SQL(
                "CREATE TABLE {} (id text PRIMARY KEY, collection text NOT NULL, key text NOT NULL,"
                " reason text NOT NULL, at timestamptz NOT NULL)"
            )
            self.connection.execute(query.format(self.qualified(REJECTS)))

    def _fault(self, error: psycopg.Error) -> ServiceError | StorageError:
        said, state = _said(error), error.sqlstate
        again = "What was written stays; the same command writes the rest."
        if state == _NO_ROOM:
            return StorageError(f"PostgreSQL at {self.place} has no room: {said}. {again}")
        if state == _CANCELLED:
            longer = "Let this user's statements take longer (statement_timeout)."
            return ServiceError(f"PostgreSQL at {self.place} cancels what harvester asks of it: {said}. {longer}")
        if state is None or state.startswith(_AWAY):
            return ServerAway(f"PostgreSQL at {self.place} is gone: {said}. {again}")
        needed = f"The user must own the schema {self.schema!r} and its tables, or be granted to make and write them."
        return ServiceError(f"PostgreSQL at {self.place} refuses: {said}. {needed}")


class PostgresTable:
    """A table. Missing tables and columns are created. `write` raises ServiceError and StorageError."""

    def __init__(
        self,
        to: Postgres,
        name: str,
        columns: Sequence[Column],
        version: Version,
        *,
        vary: bool,
        kept: Collection[str] = (),
    ) -> None:
        """`kept` names columns of objects. A newer row replaces only the values that it has itself."""
        self.rows = 0
        """Number of rows that were written, including rows that the table already has in a newer version."""
        self._to = to
        self._name = name
        names = [column.name for column in columns]
        self._known = {*names, *(name.partition(".")[0] for name in names)} if vary else None
        self._columns, self._left_out = _placed(columns)
        self._incoming = Identifier("pg_temp", f"incoming_{name}"[:MOST_NAME_BYTES])
        with to.transaction():
            to.lock()
            self._kinds = self._make()
            to.connection.execute(SQL("DROP TABLE IF EXISTS {}").format(self._incoming))
            query = SQL("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DELETE ROWS")
            incoming = Identifier(f"incoming_{name}"[:MOST_NAME_BYTES])
            to.connection.execute(query.format(incoming, to.qualified(name)))
        self._queries = self._made_queries(version, kept)

    def write(self, rows: Sequence[Row]) -> None:
        """Stores the rows that PostgreSQL can hold, and writes the reasons for the others."""
        chunk: dict[str, list[str | None]] = {}
        size = 0
        for row in rows:
            try:
                values = self._converted(row)
            except _Unfit as error:
                self._to.reject(self._name, str(row.get("_id")), str(error))
                continue
            chunk[str(row["_id"])] = values  # a cursor may return a document twice, the newer one last
            size += sum(len(value) for value in values if value)
            if len(chunk) >= CHUNK or size >= MOST_BYTES:
                self._store(list(chunk.values()))
                chunk, size = {}, 0
        self._store(list(chunk.values()))

    def _store(self, rows: list[list[str | None]]) -> None:
        """Stores rows.

        If PostgreSQL refuses them, halves them until a single refused row is left, which is rejected.
        """
        if not rows:
            return
        copy, *queries = self._queries
        try:
            with self._to.transaction(), self._to.connection.cursor() as cursor:
                with cursor.copy(copy) as into:
                    for row in rows:
                        into.write_row(row)
                for query in queries:
                    cursor.execute(query)
        except psycopg.Error as error:
            if len(rows) == 1:
                self._to.reject(self._name, str(rows[0][0]), f"PostgreSQL cannot hold it: {_said(error)}")
            else:
                self._store(rows[: len(rows) // 2])
                self._store(rows[len(rows) // 2 :])
        else:
            self.rows += len(rows)

    def _converted(self, row: Row) -> list[str | None]:
        if self._known is not None and (new := {name for name in row if row[name] is not None} - self._known):
            raise _Unfit(f"its field {min(new)!r} came while it was exported: export it again")
        for column, value in zip(self._left_out, values_of(row, self._left_out), strict=True):
            if value is not None:
                raise _Unfit(f"PostgreSQL can have no column for its field {column.name!r}")
        if row.get("_id") is None:
            raise _Unfit("it has no _id")
        converted = []
        for column, kind, value in zip(self._columns, self._kinds, values_of(row, self._columns), strict=True):
            try:
                converted.append(None if value is None else _TEXTS[kind](value))
            except _Unfit as error:
                raise _Unfit(f"{column.name}: {error}") from None
        return converted

    def _make(self) -> list[type]:
        """Creates missing tables and columns. Returns the kinds of the columns in the database."""
        to, there = self._to, self._to.columns(self._name)
        wanted = {column_name(column.name): _TYPES[column.kind] for column in self._columns}
        described = [
            SQL("{} {}").format(Identifier(name), SQL(of)) + SQL(" PRIMARY KEY" if name == "_id" else "")
            for name, of in wanted.items()
            if name not in there
        ]
        if not there:
            to.connection.execute(SQL("CREATE TABLE {} ({})").format(to.qualified(self._name), _listed(described)))
        elif described:
            added = _listed([SQL("ADD COLUMN ") + each for each in described])
            to.connection.execute(SQL("ALTER TABLE {} {}").format(to.qualified(self._name), added))
        types = wanted | {name: of for name, of in there.items() if name in wanted}
        for name, of in types.items():
            if of not in _KINDS:
                raise UsageError(
                    f"The column {name} of {to.schema}.{self._name} is {of}, and harvester would write {wanted[name]}:"
                    " rename the table, or name another schema with --schema."
                )
        return [_KINDS[types[name]] for name in wanted]

    def _made_queries(self, version: Version, kept: Collection[str]) -> list[Composed]:
        names = [Identifier(column_name(column.name)) for column in self._columns]
        both = SQL(
            "{0} = CASE WHEN was.{0} IS NULL THEN excluded.{0} ELSE was.{0} || coalesce(excluded.{0}, '{{}}') END"
        )
        changes = [
            (both if column.name in kept else SQL("{0} = excluded.{0}")).format(name)
            for column, name in zip(self._columns, names, strict=True)
        ]
        table, rejects = self._to.qualified(self._name), self._to.qualified(REJECTS)
        return [
            SQL("COPY {} ({}) FROM STDIN").format(self._incoming, _listed(names)),
            SQL(
                "INSERT INTO {} AS was ({}) SELECT {} FROM {} ORDER BY _id ON CONFLICT (_id) DO UPDATE SET {} WHERE {}"
            ).format(table, _listed(names), _listed(names), self._incoming, _listed(changes), _stays(version)),
            SQL("DELETE FROM {} AS told USING {} AS came WHERE told.collection = {} AND told.key = came._id").format(
                rejects, self._incoming, self._name
            ),
        ]


def _placed(columns: Sequence[Column]) -> tuple[list[Column], list[Column]]:
    """Splits the columns into columns that a table can have, with the key first, and the others."""
    placed: dict[str, Column] = {}
    left_out = []
    for column in columns:
        name = column_name(column.name)
        if name in placed or not _is_name(name) or len(placed) == MOST_COLUMNS:
            left_out.append(column)
        else:
            placed[name] = column
    return list(placed.values()), left_out


def _stays(version: Version) -> Composed:
    """Returns the condition that a new row must meet to replace the existing one."""
    at, run, number, gone = (Identifier(name) for name in (each or "_" for each in version))
    not_later = SQL("coalesce(was.{0} <= excluded.{0}, was.{0} IS NULL)").format(at)
    replaces = not_later
    if version.number:
        replaces = SQL(
            "({0} AND (was.{1} IS DISTINCT FROM excluded.{1} OR was.{2} IS NOT DISTINCT FROM excluded.{2})"
            " OR excluded.{2} IS NOT NULL AND coalesce(was.{2} < excluded.{2}, true))"
        ).format(not_later, run, number)
    if version.gone:
        replaces += SQL(
            " AND NOT coalesce(was.{0} > excluded.{1} AND was.{2} = excluded.{2} AND excluded.{0} IS NULL, false)"
        ).format(gone, at, run)
    return replaces


def _listed(parts: Sequence[Composed | Identifier]) -> Composed:
    return SQL(", ").join(parts)


def _is_name(text: str) -> bool:
    return 0 < len(text.encode("utf-8", "replace")) <= MOST_NAME_BYTES and "\0" not in text and text.isprintable()


def _printable(text: str) -> str:
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _of_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _unlike(value, str)
    if "\0" in value:
        raise _Unfit("it holds a NUL character, which PostgreSQL's text cannot")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Unfit("it holds half of a surrogate pair, which is no character") from None
    return value


def _of_int(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise _unlike(value, int)
    return str(int(value))


def _of_float(value: Any) -> str:
    if type(value) is float:
        return repr(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**53:
        raise _unlike(value, float)
    return str(int(value))


def _of_bool(value: Any) -> str:
    if not isinstance(value, bool):
        raise _unlike(value, bool)
    return str(value)


def _of_decimal(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Decimal128)):
        raise _unlike(value, Decimal)
    return str(value)


def _of_datetime(value: Any) -> str:
    """Converts years before 1 and after 9999 by whole cycles of the calendar, since Python lacks them."""
    if not isinstance(value, (datetime, DatetimeMS)):
        raise _unlike(value, datetime)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    cycles, rest = divmod(int(value), _CYCLE_MS)
    at = _EPOCH + timedelta(milliseconds=rest)
    year = at.year + 400 * cycles
    return f"{year if year > 0 else 1 - year:04}{at.isoformat()[4:]}{'' if year > 0 else ' BC'}"


def _of_date(value: Any) -> str:
    """Converts a date, which MongoDB holds as text."""
    try:
        if isinstance(value, str) and _is_date(value):
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise _unlike(value, date)


def _of_object(value: Any) -> str:
    try:
        text = msgspec.json.encode(value, enc_hook=_nested).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _Unfit(f"it cannot be written as JSON: {error}") from None
    if "\\u0000" in text or "null" in text:
        _check_nested(value)
    return text


def _nested(value: Any) -> Any:
    return _of_datetime(value) if isinstance(value, DatetimeMS) else in_json(value)


def _check_nested(value: Any) -> None:
    """Raises _Unfit for a value that JSON would change, or that PostgreSQL's JSON cannot hold."""
    if isinstance(value, str) and "\0" in value:
        raise _Unfit("it holds a NUL character, which PostgreSQL's jsonb cannot")
    if isinstance(value, float) and not math.isfinite(value):
        raise _Unfit(f"it holds {value}, which is no number of JSON")
    if isinstance(value, Mapping):
        for name, each in value.items():
            _check_nested(name)
            _check_nested(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _check_nested(each)


_TEXTS = {
    str: _of_text,
    int: _of_int,
    float: _of_float,
    bool: _of_bool,
    Decimal: _of_decimal,
    datetime: _of_datetime,
    date: _of_date,
    object: _of_object,
}
"""Converters by kind of column. They return the value as text for PostgreSQL."""


def _unlike(value: Any, kind: type) -> _Unfit:
    return _Unfit(f"{str(value)[:100]!r} ({type(value).__name__}) is no {_TYPES[kind]}")


def _options(address: str, named: str) -> dict[str, Any]:
    """Returns the options in an address. Messages never quote it, since the invalid part may belong to the password."""
    try:
        options: dict[str, Any] = conninfo_to_dict(address)
    except (psycopg.Error, UnicodeError):
        options = {"host": "@"}
    password = options.get("password")
    mask.add(*([str(password)] if password else []))
    ports = str(options.get("port", "5432")).split(",")
    if any("@" in str(options.get(name, "")) for name in ("host", "dbname")) or not all(map(str.isdecimal, ports)):
        raise UsageError(f"{named}: this is no address of a PostgreSQL. {_EXAMPLE}.")
    defaults = {"connect_timeout": "10", "application_name": "harvester"}
    return {**defaults, **options, "client_encoding": "utf8"}


def _said(error: Exception) -> str:
    """Returns the server's message, on one line."""
    text = " ".join(str(error).split()).removeprefix("connection failed: ")
    return mask(text).rstrip(".")
