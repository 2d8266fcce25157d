"""Stores the control parcels of each jurisdiction in MongoDB, so that layout changes between two runs are noticed.

It stores only digests of facts, and does not compare results from other versions of the parsers.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2s
from pathlib import Path
from typing import Any

from pymongo.errors import PyMongoError

from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.parsers import counties
from harvester.parsers.counties.drift import KnownCard, Signature
from harvester.sites import load_sites
from harvester.stores.mongodb import connect_sync

logger = logging.getLogger(__name__)

COLLECTION = "control_parcels"
OLD = timedelta(days=2)
"""Age of a control parcel that may have been sold or revalued: then they must all differ, not just two."""


class ControlStore:
    """The control parcels in a database. Without MongoDB nothing is stored."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def load(self, jurisdiction: str) -> list[KnownCard]:
        """Returns the stored control parcels; none when the entry's `changed` date is newer, or the parsers differ."""
        try:
            with connect_sync(self._config).client as client:
                found = client[self._config.database][COLLECTION].find_one({"_id": jurisdiction})
        except (PyMongoError, HarvesterError) as error:
            logger.warning("The control parcels of %s cannot be read: %s", jurisdiction, error)
            return []
        if not found or found["parsers"] != parsers_digest():
            return []
        records = load_sites().named(jurisdiction).property
        kept_at: datetime = found["kept_at"].replace(tzinfo=UTC)
        if records and records.changed and kept_at.date() <= records.changed:
            return []
        is_old = datetime.now(UTC) - kept_at > OLD
        return [KnownCard(each["id"], Signature(each["look"]), each["facts"], {}, is_old) for each in found["parcels"]]

    def save(self, jurisdiction: str, known: Sequence[KnownCard]) -> None:
        """Replaces the stored control parcels of a jurisdiction."""
        parcels = [{"id": each.parcel_id, "look": sorted(each.look), "facts": dict(each.digests)} for each in known]
        document: dict[str, Any] = {
            "_id": jurisdiction,
            "parsers": parsers_digest(),
            "kept_at": datetime.now(UTC),
            "parcels": parcels,
        }
        try:
            with connect_sync(self._config).client as client:
                client[self._config.database][COLLECTION].replace_one({"_id": jurisdiction}, document, upsert=True)
        except (PyMongoError, HarvesterError) as error:
            logger.warning("The control parcels of %s cannot be kept: %s", jurisdiction, error)


@cache
def parsers_digest() -> str:
    """Returns a digest of the parsers' files: other versions may read the same page differently."""
    found = blake2s(digest_size=8)
    for path in sorted(Path(counties.__path__[0]).iterdir()):
        if path.suffix in (".py", ".toml"):
            found.update(path.read_bytes())
    return found.hexdigest()
