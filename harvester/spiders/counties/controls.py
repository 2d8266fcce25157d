"""Keeps the control parcels of each jurisdiction in MongoDB, so that a site that changed while nobody read is noticed.

No fact stands there, only digests of facts. What other parsers have made of pages is not compared.
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
"""After which a parcel may have been sold or valued anew: then all control parcels must have changed, and not two."""


class ControlStore:
    """Those of a database. Without MongoDB nothing is kept."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def load(self, jurisdiction: str) -> list[KnownCard]:
        """Those that are kept, unless the entry says that its site has changed since, or the parsers have."""
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
        """Keeps them in the place of those before."""
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
    """By which the parsers of this version are known: others may read the same page otherwise."""
    found = blake2s(digest_size=8)
    for path in sorted(Path(counties.__path__[0]).iterdir()):
        if path.suffix in (".py", ".toml"):
            found.update(path.read_bytes())
    return found.hexdigest()
