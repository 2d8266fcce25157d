"""Parses the parts of a post beside its plain text: mentions, links and tags; pictures, videos, cards and quotes."""

import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import msgspec

from harvester.items.bluesky import Embed, External, Facet, Image, Quote, Video
from harvester.parsers.bluesky.refusals import refuses, without_refusing
from harvester.parsers.bluesky.scrub import OPTED_OUT
from harvester.parsers.bluesky.wire import did_of
from harvester.parsers.json_values import date_time, dictionary, integer, storable, string

MOST_NESTED = 10
"""Maximum number of levels of nested embeds that are read. The AppView shows two or three."""

_FEATURES = {
    "app.bsky.richtext.facet#mention": ("mention", "did"),
    "app.bsky.richtext.facet#link": ("link", "uri"),
    "app.bsky.richtext.facet#tag": ("tag", "tag"),
}
"""$type of a facet's feature -> kind of the facet, and name of the value."""
_image_cid = re.compile(r"/img/[^/]+/plain/[^/]+/([^/@?]+)").search


def parse_facets(text: str, facets: Any) -> tuple[Facet, ...]:
    """Parses facets into code-point offsets.

    Facets are dropped if they are out of range, reversed, overlapping, or begin or end within a character.
    """
    spans = _spans(facets)
    if len(spans) > 1:
        spans.sort(key=itemgetter(0))
    encoded = b"" if text.isascii() else text.encode("utf-8", "surrogatepass")
    size = len(encoded) or len(text)
    found = []
    at = end = 0  # end of the previous facet: in bytes, in code points
    for first, last, features in spans:
        if not at <= first < last <= size:
            continue
        if encoded:
            if not (_begins_character(encoded, first) and _begins_character(encoded, last)):
                continue
            start = end + _characters(encoded[at:first])
            end = start + _characters(encoded[first:last])
        else:
            start, end = first, last
        at = last
        for feature in features:
            if isinstance(feature, dict):
                kind = feature.get("$type")
                kind, name = _FEATURES.get(kind) or (kind, "") if isinstance(kind, str) else ("", "")
                found.append(Facet(start, end, kind, string(feature, name) or ""))
    return tuple(found)


def _spans(facets: Any) -> list[tuple[int, int, list[Any]]]:
    """Returns byte offsets and features of the facets that have both."""
    spans = []
    for facet in facets if isinstance(facets, list) else ():
        try:
            index, features = facet["index"], facet["features"]
            first, last = index["byteStart"], index["byteEnd"]
        except (TypeError, KeyError):
            continue
        if type(first) is int and type(last) is int and isinstance(features, list):
            spans.append((first, last, features))
    return spans


def _begins_character(encoded: bytes, at: int) -> bool:
    """True if a UTF-8 character begins at this byte, or the text ends."""
    return at == len(encoded) or encoded[at] & 0xC0 != 0x80


def _characters(encoded: bytes) -> int:
    return len(encoded.decode("utf-8", "surrogatepass"))


def parse_embed(view: Any, level: int = 0) -> Embed:
    """Parses the embeds of a post from its hydrated view. An unknown $type is kept unchanged."""
    if not isinstance(view, dict) or level == MOST_NESTED:
        return Embed()
    match str(view.get("$type", "")).removeprefix("app.bsky.embed."):
        case "images#view":
            return Embed(images=tuple(_images(view.get("images"), "thumb")))
        case "gallery#view":
            return Embed(images=tuple(_images(view.get("items"), "thumbnail")))
        case "video#view":
            width, height = _size(view)
            return Embed(
                video=Video(
                    playlist_url=string(view, "playlist") or "",
                    thumb_url=string(view, "thumbnail"),
                    alt=string(view, "alt"),
                    cid=string(view, "cid"),
                    width=width,
                    height=height,
                )
            )
        case "external#view":
            card = view.get("external")
            return Embed(
                external=External(
                    url=string(card, "uri") or "",
                    title=string(card, "title") or "",
                    description=string(card, "description") or "",
                    thumb_url=string(card, "thumb"),
                )
            )
        case "record#view":
            return Embed(quote=_quote(view.get("record"), level))
        case "recordWithMedia#view":
            media = parse_embed(view.get("media"), level + 1)
            quote = _quote(dictionary(view.get("record"), "record"), level)
            return msgspec.structs.replace(media, quote=quote)
        case _:
            kept = storable(without_refusing(view))
            return Embed(unknown=(kept,) if kept else ())


def _images(rows: Any, thumb: str) -> Iterator[Image]:
    for row in rows if isinstance(rows, list) else ():
        url = string(row, "fullsize")
        if url:
            width, height = _size(row)
            match = _image_cid(url)
            yield Image(
                url=url,
                thumb_url=string(row, thumb),
                alt=string(row, "alt") or None,
                cid=match[1] if match else None,
                width=width,
                height=height,
            )


def _quote(record: Any, level: int) -> Quote | None:
    if not isinstance(record, dict):
        return None
    uri = string(record, "uri") or ""
    kind = str(record.get("$type", ""))
    author = record.get("author") or record.get("creator")
    did = string(author, "did") or (did_of(uri) if uri.startswith("at://") else None)
    handle = string(author, "handle")
    if refuses(author):
        return Quote(uri, OPTED_OUT, did=did)
    match kind:
        case "app.bsky.embed.record#viewRecord":
            value = record.get("value")
            below = record.get("embeds")
            embeds = [parse_embed(embed, level + 1) for embed in below] if isinstance(below, list) else []
            return Quote(
                uri,
                "post",
                did=did,
                handle=handle,
                cid=string(record, "cid"),
                text=string(value, "text"),
                created_at=date_time(string(value, "createdAt")),
                embed=_merged(embeds) if embeds else None,
            )
        case "app.bsky.embed.record#viewNotFound":
            return Quote(uri, "not_found", did=did)
        case "app.bsky.embed.record#viewBlocked":
            return Quote(uri, "blocked", did=did)
        case "app.bsky.embed.record#viewDetached":
            return Quote(uri, "detached", did=did)
    name = string(record, "displayName") or string(record, "name") or string(record, "record", "name")
    known = {
        "app.bsky.feed.defs#generatorView": "feed",
        "app.bsky.graph.defs#listView": "list",
        "app.bsky.labeler.defs#labelerView": "labeler",
        "app.bsky.graph.defs#starterPackViewBasic": "starter_pack",
    }
    return Quote(uri, known.get(kind, kind), did=did, handle=handle, cid=string(record, "cid"), text=name)


def _merged(embeds: list[Embed]) -> Embed:
    return Embed(
        images=tuple(image for embed in embeds for image in embed.images),
        video=next((e.video for e in embeds if e.video), None),
        external=next((e.external for e in embeds if e.external), None),
        quote=next((e.quote for e in embeds if e.quote), None),
        unknown=tuple(raw for embed in embeds for raw in embed.unknown),
    )


def media_urls(embed: Embed) -> Iterator[str]:
    for image in embed.images:
        yield image.url
        if image.thumb_url:
            yield image.thumb_url
    if embed.video:
        yield embed.video.playlist_url
        if embed.video.thumb_url:
            yield embed.video.thumb_url
    if embed.external and embed.external.thumb_url:
        yield embed.external.thumb_url
    if embed.quote and embed.quote.embed:
        yield from media_urls(embed.quote.embed)


def _size(view: Any) -> tuple[int | None, int | None]:
    return integer(view, "aspectRatio", "width"), integer(view, "aspectRatio", "height")
