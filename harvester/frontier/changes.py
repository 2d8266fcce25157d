"""What can change in the ledger of a crawl, and what it hands out. Spiders yield changes; the ledger makes them."""

from collections.abc import Mapping
from typing import NamedTuple, get_args


class Found(NamedTuple):
    """Accounts to be fetched, `depth` steps from the seeds."""

    members: tuple[tuple[str, str], ...]
    """(did, handle)"""
    depth: int


class ProfileCollected(NamedTuple):
    """queued -> profile_collected. `chains` are the lists that must be read for this account now."""

    did: str
    handle: str
    chains: tuple[str, ...]
    pds: str | None = None
    """Origin of the account's server."""


class ChainsFound(NamedTuple):
    """More lists that must be read for an account."""

    did: str
    chains: tuple[str, ...]


class Progress(NamedTuple):
    """How far a chain of pages has come. A page that comes in several answers counts when all its `parts` are there."""

    did: str
    chain: str
    page: int
    """0 for the first page since the chain was started or continued."""
    cursor: str | None
    """Of the next page, None after the last; with an error, of the page that failed."""
    parts: int = 1
    error: str | None = None
    """Why the chain ends here, when it could not be read to its end."""
    later: bool = False
    """Whether a later run should try again."""


class Ended(NamedTuple):
    """queued -> failed or skipped."""

    did: str
    stage: str
    reason: str
    later: bool = False


class RootsFound(NamedTuple):
    """First posts of threads to be read."""

    uris: tuple[str, ...]


class ThreadAnswer(NamedTuple):
    """One of several answers that a large thread takes."""

    uri: str


class ThreadEnded(NamedTuple):
    """A thread was read (`collected`), could not be (`failed`), or is not wanted (`skipped`)."""

    uri: str
    stage: str
    reason: str | None = None
    later: bool = False
    answers: int = 1
    """How many must be confirmed before, this one included."""


class SeedEnded(NamedTuple):
    """A seed was resolved to an account, or could not be."""

    seed: str
    did: str | None
    reason: str | None = None
    later: bool = False


Change = Found | ProfileCollected | ChainsFound | Progress | Ended | RootsFound | ThreadAnswer | ThreadEnded | SeedEnded
CHANGES = get_args(Change)
"""The same, for isinstance."""


class Account(NamedTuple):
    """An account handed out to be fetched."""

    did: str
    depth: int
    pds: str | None = None
    todo: Mapping[str, str | None] = {}
    """Chains to read, each with the cursor to continue from; empty for an account whose profile comes first."""
