"""The purged accounts that a run must neither request nor store."""

import re
from collections.abc import Set
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pymongo.asynchronous.database import AsyncDatabase
from scrapy.crawler import Crawler

from harvester.components import get_component
from harvester.parsers.bluesky.scrub import PURGED

_parts_of = re.compile(r"[/?&=]").split


def purged_of(crawler: Crawler) -> "Purged":
    """Returns the crawl's purged accounts."""
    return get_component(crawler, Purged)


class Purged:
    """The accounts that were purged. They are not requested, and no data about them is stored."""

    accounts: Set[str] = frozenset()
    """The DIDs of the purged accounts."""
    handles: Set[str] = frozenset()
    """The former handles of the purged accounts."""

    async def read(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        """Reads the accounts. Raises PyMongoError."""
        rows = await database[PURGED].find({}, {"handle": 1}).to_list()
        self.accounts = frozenset(row["_id"] for row in rows)
        self.handles = frozenset(row["handle"].lower() for row in rows if row.get("handle"))

    def allows(self, key: str) -> bool:
        """Returns True unless the key belongs to a purged account, or to something that it wrote."""
        return key.removeprefix("at://").partition("/")[0] not in self.accounts and key.lower() not in self.handles

    def allows_address(self, url: str) -> bool:
        """Returns True unless the address requests nothing but purged accounts."""
        if not self.accounts:
            return True
        parts = set(_parts_of(unquote(url)))
        if not any(map(self._are, parts)):
            return True
        asked = parse_qsl(urlsplit(url).query)
        of_accounts = {name for name, value in asked if self._are(value)}
        return any(part.startswith("did:") and part not in self.accounts for part in parts) or any(
            name in of_accounts and not self._are(value) for name, value in asked
        )

    def _are(self, name: str) -> bool:
        """Returns True if the name is the DID or the handle of a purged account."""
        return name in self.accounts or name.lower() in self.handles
