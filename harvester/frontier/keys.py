"""Names of a spider's keys in Redis and of the entries in its frontier."""

import re


def prefix_of(spider: str, database: str) -> str:
    """Of all keys of the spider's frontier. Each database with a ledger has one of its own."""
    return f"harvester:{{{start_list_of(spider)}}}:{database}:"


def start_list_of(spider: str) -> str:
    """The list that feeds the spider, under the name that users of scrapy-redis know."""
    return f"{spider}:start_urls"


def entry_id(fingerprint: int, job: str = "", token: str = "") -> str:
    """Id of a request; with a token that of one that is queued whatever was seen."""
    number = f"{job}:{fingerprint}" if job else str(fingerprint)
    return f"{number}#{token}" if token else number


def is_filtered(name: str) -> bool:
    """Whether the request of that id was queued because it was not seen before."""
    return "#" not in name.rpartition(":")[2]


def parts_of(entry: str) -> tuple[int, str]:
    """Fingerprint and token of the request that has this id."""
    found = re.search(r"(?:^|:)(-?\d+)(?:#([^#:]*))?$", entry)
    assert found, entry
    return int(found[1]), found[2] or ""
