"""Takes accounts out of what others made: out of answers of the API, staged lines, stored documents, and posts."""

import re
from collections.abc import Iterator, Set
from functools import lru_cache
from typing import Any
from urllib.parse import quote as percent_encoded

import msgspec
from msgspec.structs import replace

from harvester.items.bluesky import Embed, Post, Quote

PURGED = "purged"
"""Key of what is left of an object, and `kind` of a stored quote that was emptied."""
OPTED_OUT = "opted_out"
"""`kind` of a quote whose account does not want to be collected."""

_LEFT_OF_QUOTE = {"uri", "kind", "did"}
_BARE = {"$type", "did", PURGED}


def scrub(value: Any, did: str) -> tuple[Any, bool]:
    """`value` with every object about the account `did` emptied, and whether anything had to be. Pure.

    A view of the account becomes `{"did": did, "purged": true}`; a view of something it made (post, list, feed,
    starter pack) becomes `{"uri": ..., "purged": true}`; a stored Quote of it keeps `uri`, `kind` and `did`, with the
    kind `purged`; addresses of its pictures are taken out of lists. References without content stay: a strong
    reference, a mention in someone else's text. `value` is not changed; parts without a finding are shared with it.
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
    """Whether `value` is the web address of a picture or film that belongs to the account."""
    return isinstance(value, str) and value.startswith("http") and _in_address(did).search(value) is not None


def _emptied(value: dict[str, Any], did: str) -> dict[str, Any] | None:
    """What is left of an object about the account; None when it is not about it."""
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
    """The post without what it quotes of these accounts at any depth; the same object when it quotes none of them.

    `kind`: of what is left of the quotes.
    """
    quoted = dids & {quote.did for quote in quotes_of(post) if quote.did and quote.kind != kind}
    if not post.embed or not quoted:
        return post
    try:
        raw = msgspec.json.decode(post.raw)
        for did in quoted:
            raw, _ = scrub(raw, did)
    except (ValueError, RecursionError):  # it has none, or none that can be looked through
        raw = None
    return replace(
        post,
        embed=_without(post.embed, quoted, kind),
        media_urls=tuple(url for url in post.media_urls if not any(leads_to(url, did) for did in quoted)),
        raw=b"" if raw is None else msgspec.json.encode(raw),
    )


def quotes_of(post: Post) -> Iterator[Quote]:
    """What it quotes, and what is quoted therein."""
    embed = post.embed
    while embed and (quote := embed.quote):
        yield quote
        embed = quote.embed


def _without(embed: Embed, dids: Set[str], kind: str) -> Embed:
    """The embed, with the quotes of these accounts emptied at every depth."""
    if not (quote := embed.quote):
        return embed
    if quote.did in dids:
        quote = replace(quote, kind=kind, handle=None, cid=None, text=None, created_at=None, embed=None)
    elif quote.embed:
        quote = replace(quote, embed=_without(quote.embed, dids, kind))
    return replace(embed, quote=quote)
