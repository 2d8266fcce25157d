"""Converts parts of responses to records. A part that cannot be converted becomes a Reject."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec import Raw

from harvester.exceptions import InvalidRecordError
from harvester.items import Provenance, Record, Reject
from harvester.items.bluesky import AccountList, Label, Post, Profile, Repost
from harvester.parsers.bluesky import wire
from harvester.parsers.bluesky.embeds import media_urls, parse_embed, parse_facets
from harvester.parsers.bluesky.refusals import NO_UNAUTHENTICATED, SAYS_NO, seen_by_all
from harvester.parsers.json_values import date_time, dictionary, storable, string, strings

BAD = (*wire.UNREADABLE, InvalidRecordError)
"""Exceptions that turn a part of a response into a Reject."""


class Parsed(NamedTuple):
    """The records and rejects in a response."""

    records: list[Record]
    rejects: list[Reject]
    cursor: str | None = None
    cut_off: frozenset[str] = frozenset()
    """For a feed: replies with replies of their own that are missing from the thread of their first post, because
    that post or the parent is not shown."""


def each(
    kind: type[Record],
    rows: Iterable[Raw],
    provenance: Provenance,
    build: Callable[[Raw, Provenance], Record],
) -> Parsed:
    records: list[Record] = []
    rejects: list[Reject] = []
    for raw in rows:
        try:
            records.append(build(raw, provenance))
        except BAD as error:
            rejects.append(reject(kind, raw, provenance, error))
    return Parsed(records, rejects)


def reject(kind: type[Record], raw: Raw | bytes, provenance: Provenance, error: Exception) -> Reject:
    original = bytes(raw)
    try:
        value = wire.decode_any(original)
        original = seen_by_all(original)
    except wire.UNREADABLE:
        value, original = None, b"" if SAYS_NO in original else original
    key = string(value, "uri") or string(value, "did") or ""
    return Reject(kind.KIND, str(error), key, original, provenance.url)


def profile(raw: Raw, provenance: Provenance) -> Profile:
    view = wire.decode_profile(raw)
    return Profile(
        did=view.did,
        provenance=provenance,
        raw=seen_by_all(raw, view.did),
        opt_outs=_opt_outs(view.labels),
        handle=view.handle,
        display_name=view.display_name or None,
        description=view.description or None,
        pronouns=view.pronouns,
        website=view.website,
        avatar_url=view.avatar,
        banner_url=view.banner,
        followers_count=view.followers_count,
        follows_count=view.follows_count,
        posts_count=view.posts_count,
        created_at=date_time(view.created_at),
        indexed_at=date_time(view.indexed_at),
        labels=_labels(view.labels),
        pinned_post_uri=string(view.pinned_post, "uri"),
        starter_pack_uri=string(view.joined_via_starter_pack, "uri"),
        associated=storable(view.associated),
        verification=storable(view.verification),
    )


def post(raw: Raw, provenance: Provenance, *, pinned: bool = False) -> Post:
    view = wire.decode_post(raw)
    record = view.record
    text = record.text
    if not isinstance(text, str):
        raise InvalidRecordError(f"post: text is {type(text).__name__}")
    created_at = date_time(record.created_at)
    indexed_at = date_time(view.indexed_at)
    root, parent = _replied_to(record.reply) if record.reply is not None else (None, None)
    embed = parse_embed(view.embed) if view.embed is not None else None
    author = view.author
    return Post(
        did=author.did,
        provenance=provenance,
        raw=seen_by_all(raw, author.did),
        opt_outs=_opt_outs(author.labels) if author.labels else (),
        uri=view.uri,
        cid=view.cid,
        handle=author.handle,
        text=text,
        created_at=created_at,
        indexed_at=indexed_at,
        sort_at=min(created_at, indexed_at) if created_at and indexed_at else indexed_at,
        langs=strings(record.langs),
        tags=strings(record.tags),
        facets=parse_facets(text, record.facets) if record.facets else (),
        root_uri=root,
        parent_uri=parent,
        embed=embed,
        media_urls=tuple(dict.fromkeys(media_urls(embed))) if embed else (),
        labels=_labels(view.labels) if view.labels else (),
        reply_count=view.reply_count,
        repost_count=view.repost_count,
        like_count=view.like_count,
        quote_count=view.quote_count,
        bookmark_count=view.bookmark_count,
        threadgate=storable(dictionary(view.threadgate, "record")) if view.threadgate else None,
        pinned=pinned,
    )


def _replied_to(reply: Any) -> tuple[str | None, str | None]:
    """Returns root and parent of a reply; None for both if the author names either by a handle, or not at all."""
    root, parent = string(reply, "root", "uri"), string(reply, "parent", "uri")
    if root and parent and root.startswith("at://did:") and parent.startswith("at://did:"):
        return root, parent
    return None, None


def repost(reason: wire.Reason, subject_uri: str, raw: Raw, provenance: Provenance) -> Repost:
    return Repost(
        did=reason.by.did,
        provenance=provenance,
        raw=seen_by_all(raw, reason.by.did),
        opt_outs=_opt_outs(reason.by.labels),
        uri=reason.uri,
        subject_uri=subject_uri,
        subject_did=wire.did_of(subject_uri),
        created_at=date_time(reason.indexed_at),
    )


def account_list(raw: Raw, provenance: Provenance) -> AccountList:
    view = wire.decode_list(raw)
    return AccountList(
        did=view.creator.did,
        provenance=provenance,
        raw=seen_by_all(raw, view.creator.did),
        opt_outs=_opt_outs(view.creator.labels),
        uri=view.uri,
        cid=view.cid,
        name=view.name or string(view.record, "name") or "",
        purpose=view.purpose.partition("#")[2] or ("starterpack" if view.record else view.purpose),
        description=view.description or string(view.record, "description"),
        item_count=view.list_item_count,
        list_uri=string(view.list_, "uri") or string(view.record, "list"),
        indexed_at=date_time(view.indexed_at),
    )


def _labels(labels: list[wire.LabelView]) -> tuple[Label, ...]:
    cancelled = {(label.src, label.val) for label in labels if label.neg}
    return tuple(Label(x.val, x.src) for x in labels if (x.src, x.val) not in cancelled)


def _opt_outs(labels: list[wire.LabelView]) -> tuple[str, ...]:
    return (NO_UNAUTHENTICATED,) if any(x.val == NO_UNAUTHENTICATED for x in _labels(labels)) else ()
