"""A site of JSON APIs: lists of rows by pages, documents with an ETag, answers that need a secret."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.crawling import Answer, Site

PAGE = 3
"""Rows of a page."""


class Api(Site):
    """`rows` and `documents` may be changed at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, list[dict[str, Any]]] = {}
        """Path -> the rows of its list, newest first: `{"data": {"items": [...]}, "next": "<cursor>"}`."""
        self.documents: dict[str, Any] = {}
        """Path -> what it answers."""
        self.secrets: dict[str, str] = {}
        """Path -> what the header X-Key must hold."""
        self.bad: dict[str, int] = {}
        """Path -> the status with which it is answered."""
        self.cursors_ok = True
        self.answers_at_all = asyncio.Event()
        """Until it is set, no request with a cursor is answered."""
        self.answers_at_all.set()
        self.unchanged: Counter[str] = Counter()
        """Path -> how often it was answered with 304."""

    async def answer(self, path: str, number: int) -> Answer:
        parts = urlsplit(path)
        if "cursor" in parts.query:
            await self.answers_at_all.wait()
        head = self.heads[path][-1].lower()
        if status := self.bad.get(parts.path):
            return Answer(status, b'{"error":"no"}')
        if (secret := self.secrets.get(parts.path)) and f"x-key: {secret.lower()}\r\n" not in head:
            return Answer(401, b'{"error":"no key"}')
        if parts.path in self.rows:
            return self._page(parts.path, parse_qs(parts.query))
        body = json.dumps(self.documents[parts.path]).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()[:8]}"'
        if f"if-none-match: {etag}" in head:
            self.unchanged[parts.path] += 1
            return Answer(304, b"", {"ETag": etag})
        return Answer(body=body, headers={"ETag": etag})

    def _page(self, path: str, query: Mapping[str, list[str]]) -> Answer:
        rows = self.rows[path]
        if "page" in query:
            first = (int(query["page"][0]) - 1) * PAGE
            return Answer(body=json.dumps({"items": rows[first : first + PAGE], "total": len(rows)}).encode())
        cursor = query.get("cursor", [""])[0]
        if cursor and not self.cursors_ok:
            return Answer(400, b'{"error":"the cursor has expired"}')
        first = [str(row["id"]) for row in rows].index(cursor) + 1 if cursor else 0
        shown = rows[first : first + PAGE]
        leads_to = str(shown[-1]["id"]) if first + PAGE < len(rows) else None
        return Answer(body=json.dumps({"data": {"items": shown}, "next": leads_to}).encode())

    def asked(self, path: str) -> list[str]:
        """What was asked for since the last time, of a path: its query, or nothing."""
        seen = [urlsplit(each.path) for each in self.arrivals]
        self.arrivals = [each for each in self.arrivals if urlsplit(each.path).path != path]
        return [each.query for each in seen if each.path == path]
