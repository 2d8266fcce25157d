"""Names of a spider's keys in Redis and of the entries in its frontier."""

import re


def prefix_of(spider: str, database: str) -> str:
    """Returns the prefix of all keys of the spider's frontier. Each database with a ledger has its own."""
    return f"harvester:{{{start_list_of(spider)}}}:{database}:"


def start_list_of(spider: str) -> str:
    """Returns the name of the list that feeds the spider, as in scrapy-redis."""
    return f"{spider}:start_urls"


def entry_id(fingerprint: int, job: str = "", token: str = "") -> str:
    """Returns the id of a request; with a token, the id of an unfiltered request."""
    number = f"{job}:{fingerprint}" if job else str(fingerprint)
    return f"{number}#{token}" if token else number


def is_filtered(name: str) -> bool:
    """Returns True if the request with that id has passed the duplicate filter (dont_filter was not set)."""
    return "#" not in name.rpartition(":")[2]


def parts_of(entry: str) -> tuple[int, str]:
    """Returns fingerprint and token of the request with this id."""
    found = re.search(r"(?:^|:)(-?\d+)(?:#([^#:]*))?$", entry)
    assert found, entry
    return int(found[1]), found[2] or ""
