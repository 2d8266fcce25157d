"""Entries of the spider bluesky's start list: plain lines, or JSON objects with the spider's arguments."""

from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from harvester.exceptions import UsageError
from harvester.spiders.base import said_of
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.seeds import BadSeed, parse_line

LONGEST_BYTES = 1024 * 1024
"""Maximum number of bytes in an entry."""


class StartEntry(NamedTuple):
    """The seeds and arguments in an entry."""

    seeds: tuple[str, ...]
    arguments: BlueskyArguments
    """The arguments without seeds."""


def parse_entry(entry: bytes, own: BlueskyArguments) -> StartEntry | None:
    """Parses an entry; returns None for an empty line or a comment. Missing arguments are taken from `own`.

    Raises UsageError whose message says why the entry is bad.
    """
    if len(entry) > LONGEST_BYTES:
        raise UsageError(f"it has {len(entry):,} bytes; at most {LONGEST_BYTES:,} are read")
    try:
        text = entry.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UsageError("it is not text in UTF-8") from None
    if not text.startswith("{"):
        seed = parse_line(text)
        if isinstance(seed, BadSeed):
            raise UsageError(f"it is {seed.reason}")
        return StartEntry((seed,), own) if seed else None
    try:
        given = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(f"it is not valid JSON: {error}") from None
    seeds = _seeds(given)
    try:
        return StartEntry(seeds, BlueskyArguments(**own.model_dump() | given | {"seeds": ""}))
    except ValidationError as error:
        raise UsageError("; ".join(said_of(error, BlueskyArguments))) from None


def _seeds(given: dict[str, Any]) -> tuple[str, ...]:
    """Takes the seeds out of the entry's arguments."""
    if "seeds" in given and "url" in given:
        raise UsageError("it has seeds and a url; give one of them")
    value = given.pop("seeds", None) or given.pop("url", None)
    given.pop("url", None)
    if isinstance(value, str):
        value = value.replace("\n", ",").split(",")
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise UsageError('it has no seeds; give {"seeds": "alice.example.com,did:plc:..."}')
    seeds = list(filter(None, map(parse_line, value)))
    if bad := next((seed for seed in seeds if isinstance(seed, BadSeed)), None):
        raise UsageError(f"seeds: {bad.text!r} is {bad.reason}")
    if not seeds:
        raise UsageError("it has no seeds")
    return tuple(seed for seed in seeds if isinstance(seed, str))
