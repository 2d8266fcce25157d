"""A county's parcels, published as ArcGIS and Socrata servers do, with their limits and their failures.

Conditions are answered by SQLite, so that one that is badly quoted is refused as such a server refuses it.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.crawling import Answer
from tests.sandbox.county import County, Parcel
from tests.sandbox.county_portal import Changes, CountyPortal

Row = dict[str, Any]
LAYER = "/arcgis/rest/services/Parcels/FeatureServer/0"
DATASET = "abcd-1234"
OFFSET = "ffset="
"""In the address of a page, of both."""
MAINTENANCE = Answer(
    200, b"<html><head><title>Maintenance</title></head><body>Down for maintenance.</body></html>", kind="text/html"
)
RATE_LIMITED = Answer(429, b'{"message":"Too many requests"}', {"Retry-After": "0"})
TOKEN_REQUIRED = Answer(body=b'{"error":{"code":499,"message":"Token Required","details":[]}}')
NO_PAGES = Answer(
    body=b'{"error":{"code":400,"message":"Unable to perform query.","details":["Pagination is not supported."]}}'
)
_WIDTH = 24
"""Of the column with the parcel's number, which is padded to it."""


class CountyTable(CountyPortal):
    """A table of a county's parcels, and of some streets, which have no number.

    Its changes are of columns: name -> new name, or nothing where the column is no more.
    """

    page = OFFSET
    streets = 7

    def __init__(self, county: County) -> None:
        super().__init__()
        self.county = county
        self._changed: Changes = {}
        self.columns: dict[str, str] = {}
        """Name -> type, as the platform calls it."""
        self._rows = sqlite3.connect(":memory:")
        self._rows.row_factory = sqlite3.Row

    def refill(self, **names: str) -> None:
        """Makes the county's own table. Column -> its new name, from now on."""
        raise NotImplementedError

    def fill(self, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """Makes the table anew."""
        self.columns = dict(columns)
        names = list(columns)
        self._rows.execute("DROP TABLE IF EXISTS parcels")
        self._rows.execute(f"CREATE TABLE parcels ({', '.join(names)})")
        marks = ", ".join("?" * len(names))
        self._rows.executemany(
            f"INSERT INTO parcels VALUES ({marks})", ([row.get(name) for name in names] for row in rows)
        )

    def change(self, names: Changes) -> None:
        """Renames columns, several at once; without a new name they are gone."""
        columns = {to: type_ for name, type_ in self.columns.items() if (to := names.get(name, name))}
        rows = [{names.get(name, name): value for name, value in row.items()} for row in self.select("*", "1=1")]
        self.fill(columns, rows)

    def select(self, what: str, where: str, order: str = "rowid", limit: int = -1, offset: int = 0) -> list[Row]:
        """Raises sqlite3.Error."""
        query = f"SELECT {what} FROM parcels WHERE {where} ORDER BY {order} LIMIT {limit} OFFSET {offset}"
        return [dict(row) for row in self._rows.execute(query)]

    def well(self, path: str) -> Answer:
        if self._changed != self.now_changed:
            self._changed = dict(self.now_changed)
            self.refill()
            self.change(self._changed)
        parts = urlsplit(path)
        try:
            return self.table(parts.path, {name: values[-1] for name, values in parse_qs(parts.query).items()})
        except sqlite3.Error as error:
            return self.refusal(str(error))

    def table(self, path: str, asked: Mapping[str, str]) -> Answer:
        """Raises sqlite3.Error."""
        raise NotImplementedError

    def refusal(self, message: str) -> Answer:
        """Of a condition that is none."""
        raise NotImplementedError


class ArcgisTable(CountyTable):
    """A layer. Attributes are padded with blanks, dates are milliseconds, streets have no number."""

    def __init__(self, county: County, most_rows: int = 100) -> None:
        super().__init__(county)
        self.most_rows = most_rows
        """That it gives at once."""
        self.says_rows = most_rows
        """That it says it gives."""
        self.pages = self.says_pages = True
        """Whether rows can be asked for by their place, and whether it says so."""
        self.counts = True
        """Whether it knows returnCountOnly; else it tells all ids."""
        self.ignores_offset = False
        self.always_exceeded = False
        """Whether it says of every answer that there is more, also of the last one."""
        self.says_exceeded = True
        """Whether it says of an answer that there is more: servers before 10.1 say it of none."""
        self.most_ids = 0
        """Object ids that it gives at once; 0: all."""
        self.capabilities = "Query,Extract"
        self.names: Mapping[str, str] = {}
        """Column -> what it is called instead."""
        self.refill()

    def refill(self, **names: str) -> None:
        self.names = names
        types = {
            "OBJECTID": "OID",
            "PIN": "String",
            "TOWN": "String",
            "OWNER1": "String",
            "OWNER2": "String",
            "SITUS_ADDR": "String",
            "USE_CD": "String",
            "ACRES": "Double",
            "TAX_YR": "SmallInteger",
            "MARKET_VAL": "Double",
            "LAND_VAL": "Double",
            "TAXABLE_VAL": "Integer",
            "SALE_DATE": "Date",
            "SALE_PRICE": "Integer",
            "DEED_REF": "String",
            "FLOOD_ZONE": "String",
            "Shape__Area": "Double",
        }
        rows = [_attributes(number, parcel) for number, parcel in enumerate(self.county.parcels)]
        rows += [{"OBJECTID": 2 * (len(rows) + number), "PIN": " "} for number in range(1, self.streets + 1)]
        self.fill(
            {names.get(name, name): type_ for name, type_ in types.items()},
            ({names.get(name, name): value for name, value in row.items()} for row in rows),
        )

    def refusal(self, message: str) -> Answer:
        error = {"code": 400, "message": "Unable to complete operation.", "details": [message]}
        return _json({"error": error})

    def table(self, path: str, asked: Mapping[str, str]) -> Answer:
        if path == LAYER:
            return _json(self._described())
        if path != f"{LAYER}/query":
            return Answer(404, b"{}")
        where = asked["where"]
        if asked.get("returnCountOnly") and self.counts:
            return _json({"count": self.select("count(*) AS n", where)[0]["n"]})
        if asked.get("returnCountOnly") or asked.get("returnIdsOnly"):
            ids = [row["OBJECTID"] for row in self.select("OBJECTID", where, "random()")]
            if self.most_ids and len(ids) > self.most_ids:
                return _json({"objectIds": sorted(ids)[: self.most_ids], "exceededTransferLimit": True})
            return _json({"objectIdFieldName": "OBJECTID", "objectIds": ids})
        if "resultOffset" in asked and not self.pages:
            return NO_PAGES
        limit = min(self.most_rows, int(asked.get("resultRecordCount", self.most_rows)))
        offset = 0 if self.ignores_offset else int(asked.get("resultOffset", 0))
        rows = self.select("*", where, asked.get("orderByFields", "random()"), limit + 1, offset)
        page: Row = {"objectIdFieldName": "OBJECTID", "fields": self._fields()}
        page["features"] = [{"attributes": row} for row in rows[:limit]]
        if self.says_exceeded and (len(rows) > limit or self.always_exceeded):
            page["exceededTransferLimit"] = True
        return _json(page)

    def _fields(self) -> list[Row]:
        return [
            {"name": name, "type": f"esriFieldType{type_}", "alias": name.replace("_", " ")}
            for name, type_ in self.columns.items()
        ]

    def _described(self) -> Row:
        return {
            "currentVersion": 10.81,
            "name": "Parcels",
            "capabilities": self.capabilities,
            "maxRecordCount": self.says_rows,
            "advancedQueryCapabilities": {"supportsPagination": self.says_pages},
            "fields": self._fields(),
        }


class SocrataTable(CountyTable):
    """A dataset. Numbers are text, and a row lacks the columns that have no value in it."""

    def __init__(self, county: County) -> None:
        super().__init__(county)
        self.refill()

    def refill(self, **names: str) -> None:
        types = {
            "parcel_number": "text",
            "town": "text",
            "owner_name_1": "text",
            "owner_name_2": "text",
            "property_location": "text",
            "use_code": "text",
            "acres": "number",
            "roll_year": "number",
            "full_market_value": "number",
            "land_value": "number",
            "taxable_value": "number",
            "sale_date": "calendar_date",
            "sale_price": "number",
            "instrument_number": "text",
            "flood_zone": "text",
        }
        rows = [dict(zip(types, _texts(parcel), strict=True)) for parcel in self.county.parcels]
        rows += [{"town": "Ada"}] * self.streets
        self.fill(
            {names.get(name, name): type_ for name, type_ in types.items()},
            ({names.get(name, name): value for name, value in row.items()} for row in rows),
        )

    def refusal(self, message: str) -> Answer:
        return _json({"code": "query.compiler.malformed", "error": True, "message": message}, 400)

    def table(self, path: str, asked: Mapping[str, str]) -> Answer:
        if path == f"/api/views/{DATASET}.json":
            columns = [
                {"fieldName": name, "name": name.replace("_", " ").title(), "dataTypeName": type_}
                for name, type_ in self.columns.items()
            ]
            return _json({"id": DATASET, "name": "Parcels", "columns": columns})
        if path != f"/resource/{DATASET}.json":
            return _json({"code": "dataset.missing", "error": True, "message": "Not found"}, 404)
        where = asked.get("$where", "1=1")
        if asked.get("$select") == "count(*)":
            return _json([{"count": str(self.select("count(*) AS n", where)[0]["n"])}])
        rows = self.select("*", where, "rowid", int(asked.get("$limit", 1000)), int(asked.get("$offset", 0)))
        shown = [{name: value for name, value in row.items() if value is not None} for row in rows]
        headers = {"X-SODA2-Fields": json.dumps(list(self.columns)), "X-SODA2-Types": json.dumps(self._types())}
        return _json(shown, headers=headers)

    def _types(self) -> list[str]:
        """As pages of rows call them."""
        return [{"calendar_date": "floating_timestamp"}.get(type_, type_) for type_ in self.columns.values()]


def _attributes(number: int, parcel: Parcel) -> Row:
    sold = parcel.sold
    return {
        "OBJECTID": 2 * number + 1,
        "PIN": parcel.parcel_id.ljust(_WIDTH),
        "TOWN": parcel.town,
        "OWNER1": (parcel.owners[0] if parcel.owners else "").ljust(35),
        "OWNER2": parcel.owners[1] if len(parcel.owners) > 1 else None,
        "SITUS_ADDR": parcel.address or " ",
        "USE_CD": parcel.use_code,
        "ACRES": parcel.acres,
        "TAX_YR": parcel.tax_year,
        "MARKET_VAL": float(parcel.market),
        "LAND_VAL": float(parcel.land),
        "TAXABLE_VAL": None if parcel.taxable is None else int(parcel.taxable),
        "SALE_DATE": int(datetime(sold.year, sold.month, sold.day, 5, tzinfo=UTC).timestamp() * 1000) if sold else None,
        "SALE_PRICE": None if parcel.price is None else int(parcel.price),
        "DEED_REF": parcel.deed,
        "FLOOD_ZONE": parcel.flood_zone,
        "Shape__Area": number + 0.123456789,
    }


def _texts(parcel: Parcel) -> list[str | None]:
    return [
        parcel.parcel_id,
        parcel.town,
        parcel.owners[0] if parcel.owners else None,
        parcel.owners[1] if len(parcel.owners) > 1 else None,
        parcel.address,
        parcel.use_code,
        str(parcel.acres),
        str(parcel.tax_year),
        str(parcel.market),
        str(parcel.land),
        None if parcel.taxable is None else str(parcel.taxable),
        f"{parcel.sold}T00:00:00.000" if parcel.sold else None,
        None if parcel.price is None else str(parcel.price),
        parcel.deed,
        parcel.flood_zone,
    ]


def _json(value: object, status: int = 200, headers: Mapping[str, str] = {}) -> Answer:
    return Answer(status, json.dumps(value).encode(), headers)
