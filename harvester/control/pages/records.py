"""Stored records: collections, samples with pictures, a search by key, and single records."""

import json
from collections.abc import Iterator
from typing import BinaryIO

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from nicegui import ui

from harvester.control.pages.components import Cell, Facts, RowsTable, TableRow, Tag, address, at
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext
from harvester.control.services.records import Collection, RecordKinds, StoredRecord
from harvester.exceptions import HarvesterError
from harvester.formatting import size

EVERY_S = 5.0
MOST = 20
"""Maximum number of records to show at a time."""
MOST_FIELDS = 5
"""Maximum number of fields of a record in a table."""
LONG_WORD = 40
"""Characters of a text without a space that is too long to read."""
CHUNK = 1 << 16
"""Bytes of a file to send at a time."""
EMPTY = """Nothing is stored yet. Submit a job, or type:

harvester sandbox harvester crawl bluesky"""
_DULL = {"raw", "_id"}
"""Fields that tables leave out."""


async def view(room: PageContext) -> None:
    with frame(room, "Records", "Records"):
        with Tag("section", classes="card", aria_label="Collections"):
            rows = RowsTable("Collections", ("records of", "+about", "size"), EMPTY)

        def show(collections: list[Collection]) -> None:
            rows.show(
                [
                    TableRow(
                        each.name, [Cell(each.name, address("records", each.name)), each.records, size(each.bytes)]
                    )
                    for each in collections
                ]
            )

        await room.broadcaster.watch("collections", lambda: RecordKinds(room.here.jobs).collections(), show, EVERY_S)


async def view_some(room: PageContext, collection: str, prefix: str, after: str) -> None:
    """Shows the newest records, or records with keys that start with `prefix`. Raises UnknownRecord."""
    records = RecordKinds(room.here.jobs)
    is_search = bool(prefix or after)
    page = await (records.search(collection, prefix, after, MOST) if is_search else records.newest(collection, MOST))
    with frame(room, collection.replace("_", " "), "Records"):
        with Tag("div", classes="line end"):
            Tag("a", "All collections", "act", href="/records")
            search = ui.input("Keys that begin with", value=prefix).props("outlined dense data-search")
            search.on(
                "keydown.enter",
                lambda: ui.navigate.to(address("records", collection, prefix=str(search.value or "").strip())),
            )
        with Tag("section", classes="card", aria_label="Records"):
            names = _names(page.records)
            has_pictures = any(_picture(collection, each) for each in page.records)
            columns = (
                "key",
                *(["picture"] if has_pictures else []),
                *(name.replace("_", " ") for name in names),
                "fetched",
            )
            caption = "In the order of their keys" if is_search else "The newest first"
            rows = RowsTable(caption, columns, "No key begins so." if is_search else EMPTY)
            shown = []
            for each in page.records:
                cells: list[Cell | str | int] = [Cell(each.key, address("records", collection, key=each.key))]
                if has_pictures:
                    picture = _picture(collection, each)
                    cells.append(Cell("A picture of the record", picture=picture) if picture else "")
                cells += [_text(each.fields.get(name)) for name in names]
                shown.append(TableRow(each.key, [*cells, at(each.fetched_at)]))
            rows.show(shown)
            if page.next:
                Tag("a", "Next", "act", href=address("records", collection, prefix=prefix, after=page.next))


async def view_one(room: PageContext, collection: str, key: str) -> None:
    """Shows a record. Raises UnknownRecord."""
    record = await RecordKinds(room.here.jobs).record(collection, key)
    with frame(room, key, "Records", f"one of {collection.replace('_', ' ')}"):
        with Tag("div", classes="line"):
            Tag("a", "Back to the collection", "act", href=address("records", collection))
        with Tag("section", classes="card", aria_label="Where it comes from"):
            job = record.item.partition(":")[0]
            of_item = Cell(record.item, address("jobs", job, "items", item=record.item)) if record.item else Cell("")
            facts = Facts()
            facts.show(
                [
                    ("address", record.url),
                    ("fetched", at(record.fetched_at)),
                    ("by the spider", record.spider),
                    ("job item", of_item),
                    ("gone since", at(record.gone_at)),
                ]
            )
        if record.files:
            with Tag("section", classes="card", aria_label="Files"):
                files = RowsTable("Files", ("file", "shown", "path"), "")
                files.show([_file(collection, key, slot, path) for slot, path in record.files.items()])
        with Tag("section", classes="card", aria_label="Fields"):
            Tag("h2", "Fields")
            Tag("pre", json.dumps(record.fields, indent=2, ensure_ascii=False, default=str), "log", tabindex="0")


def add_files(app: FastAPI, room: PageContext) -> None:
    """Adds the route for the files of records: pictures are shown, other files are downloaded."""

    @app.get("/files/{collection}", include_in_schema=False)
    async def send_file(collection: str, key: str, slot: str) -> Response:
        try:
            found = await RecordKinds(room.here.jobs).file(collection, key, slot)
        except HarvesterError as error:
            return PlainTextResponse(str(error), 404)
        is_picture = found.media_type.startswith("image/")
        headers = {
            "content-length": str(found.size),
            "content-security-policy": "default-src 'none'; sandbox",
            "content-disposition": "inline" if is_picture else "attachment",
            "cache-control": "private, max-age=3600",
        }
        return StreamingResponse(_chunks(found.file), media_type=found.media_type, headers=headers)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk


def _picture(collection: str, record: StoredRecord) -> str:
    """Returns the address of the record's first picture; empty without a picture."""
    ends = (".jpg", ".png", ".gif", ".webp")
    slot = next((slot for slot, path in record.files.items() if path.lower().endswith(ends)), "")
    return address("files", collection, key=record.key, slot=slot) if slot else ""


def _file(collection: str, key: str, slot: str, path: str) -> TableRow:
    href = address("files", collection, key=key, slot=slot)
    is_picture = path.lower().endswith((".jpg", ".png", ".gif", ".webp"))
    return TableRow(slot, [Cell(slot, href), Cell(f"The picture {slot}", picture=href) if is_picture else "", path])


def _names(records: list[StoredRecord]) -> list[str]:
    """Returns the most informative fields: common ones, words before numbers, no repetition of the key."""
    scores: dict[str, float] = {}
    for record in records:
        for name, value in record.fields.items():
            text = str(value)
            is_known = value in (None, "", [], {}) or isinstance(value, (dict, list)) or text in record.key
            if name not in _DULL and not is_known:
                scores[name] = scores.get(name, 0) + (2 if " " in text else 1 if len(text) < LONG_WORD else 0.1)
    return sorted(scores, key=lambda name: -scores[name])[:MOST_FIELDS]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
