"""Removes accounts from the data of others: from API responses, staged lines, stored documents and posts."""

import re
from collections.abc import Iterator, Set
from functools import lru_cache
from typing import Any
from urllib.parse import quote as percent_encoded

import msgspec
from msgspec.structs import replace

from harvester.items.bluesky import Embed, Post, Quote

PURGED = "purged"
"""Key in the remains of an emptied object, and `kind` of a stored quote that was emptied."""
OPTED_OUT = "opted_out"
"""`kind` of a quote whose account opted out of being collected."""

_LEFT_OF_QUOTE = {"uri", "kind", "did"}
_BARE = {"$type", "did", PURGED}


def scrub(value: Any, did: str) -> tuple[Any, bool]:
    """Empties each object about the account `did`. Returns the value, and True if anything was emptied. Pure.

    A view of the account becomes `{"did": did, "purged": true}`; a view of something it made (post, list, feed, starter
    pack) becomes `{"uri": ..., "purged": true}`; a stored Quote keeps `uri`, `kind` and `did`, with the kind `purged`;
    addresses of the account's pictures are removed from lists. References without content stay: a strong reference, a
    mention in another account's text. `value` itself is not changed; the result shares the unchanged parts.
    """
    if isinstance(value, dict):
        if (left := _emptied(value, did)) is not None:
            return left, left != value
        scrubbed = {name: scrub(part, did) for name, part in value.items()}
        if any(changed for _, changed in scrubbed.values()):
            return {name: part for name, (part, _) in scrubbed.items()}, True
    elif isinstance(value, list):
        parts = [scrub(part, did) for part in value if not leads_to(part, did)]
        if len(parts) < len(value) or any(changed for _, changed in parts):
            return [part for part, _ in parts], True
    return value, False


def leads_to(value: Any, did: str) -> bool:
    """True if `value` is the web address of a picture or video that belongs to the account."""
    return isinstance(value, str) and value.startswith("http") and _in_address(did).search(value) is not None


def _emptied(value: dict[str, Any], did: str) -> dict[str, Any] | None:
    """Returns the remains of an object about the account; None if the object is not about it."""
    if value.get("did") == did:
        if {"uri", "kind"} <= value.keys():
            return {**{name: value[name] for name in value if name in _LEFT_OF_QUOTE}, "kind": PURGED}
        return value if value.keys() <= _BARE else {"did": did, PURGED: True}
    for maker in ("author", "creator"):
        made_by = value.get(maker)
        if isinstance(made_by, dict) and made_by.get("did") == did:
            return {**({"uri": value["uri"]} if "uri" in value else {}), PURGED: True}
    return None


@lru_cache(maxsize=64)
def _in_address(did: str) -> re.Pattern[str]:
    """Finds the DID as a whole, plain or percent-encoded."""
    return re.compile(f"(?:{re.escape(did)}|{re.escape(percent_encoded(did, safe=''))})(?![A-Za-z0-9._:%-])")


def without_quotes(post: Post, dids: Set[str], kind: str = PURGED) -> Post:
    """Returns the post without quotes of the given accounts at any depth; the same object if it has no such quotes.

    `kind` is the kind of the emptied quotes.
    """
    quoted = dids & {quote.did for quote in quotes_of(post) if quote.did and quote.kind != kind}
    if not post.embed or not quoted:
        return post
    try:
        raw = msgspec.json.decode(post.raw)
        for did in quoted:
            raw, _ = scrub(raw, did)
    except (ValueError, RecursionError):  # the raw part is missing, or cannot be searched
        raw = None
    return replace(
        post,
        embed=_without(post.embed, quoted, kind),
        media_urls=tuple(url for url in post.media_urls if not any(leads_to(url, did) for did in quoted)),
        raw=b"" if raw is None else msgspec.json.encode(raw),
    )


def quotes_of(post: Post) -> Iterator[Quote]:
    """Yields the quotes in a post, and the quotes within these quotes."""
    embed = post.embed
    while embed and (quote := embed.quote):
        yield quote
        embed = quote.embed


def _without(embed: Embed, dids: Set[str], kind: str) -> Embed:
    """Returns the embed with the quotes of the accounts emptied at every depth."""
    if not (quote := embed.quote):
        return embed
    if quote.did in dids:
        quote = replace(quote, kind=kind, handle=None, cid=None, text=None, created_at=None, embed=None)
    elif quote.embed:
        quote = replace(quote, embed=_without(quote.embed, dids, kind))
    return replace(embed, quote=quote)
