"""The fields of a profile and of a post as they have to be stored, and as they are."""

from collections.abc import Mapping
from typing import Any

from tests.appview.known import Known, Told, moment

Fields = dict[str, Any]
Document = Mapping[str, Any]

POST_COUNTS = {f"{kind}_count": f"{kind}Count" for kind in ("like", "repost", "reply", "quote")}
PROFILE_COUNTS = {f"{kind}_count": f"{kind}Count" for kind in ("followers", "follows", "posts")}
FEATURES = {"mention": "did", "link": "uri", "tag": "tag"}
"""Kind of a facet's feature -> where its value is."""


def differences(wanted: Fields, got: Fields) -> list[str]:
    return [f"{field}: {got[field]!r} is not {value!r}" for field, value in wanted.items() if got[field] != value]


def wanted_profile(account: Told) -> Fields:
    profile = account["profile"] or {}
    return {
        "handle": account["handle"],
        "display_name": profile.get("displayName") or None,
        "description": profile.get("description"),
        "avatar": "avatar" in profile,
        "banner": "banner" in profile,
        "labels": wanted_labels(account, account["did"], profile),
        **{field: account["shown"].get(name) for field, name in PROFILE_COUNTS.items()},
    }


def stored_profile(document: Document) -> Fields:
    return {
        **{field: document.get(field) for field in ("handle", "display_name", "description", *PROFILE_COUNTS)},
        "avatar": "avatar_url" in document,
        "banner": "banner_url" in document,
        "labels": stored_labels(document),
    }


def wanted_post(known: Known, post: Told) -> Fields:
    record = post["record"]
    return {
        "did": post["by"],
        "cid": post["cid"],
        "handle": known.accounts[post["by"]]["handle"],
        "text": record["text"],
        "parent_uri": post.get("parent"),
        "root_uri": post.get("root"),
        "created_at": moment(record["createdAt"]),
        "sort_at": min(moment(record["createdAt"]), moment(post["shown"]["indexedAt"])),
        "langs": record.get("langs", []),
        "tags": record.get("tags", []),
        "facets": wanted_facets(record),
        "labels": wanted_labels(post, post["by"], record),
        **wanted_media(record.get("embed", {})),
        "quote": wanted_quote(known, post),
        **{field: post["shown"][name] for field, name in POST_COUNTS.items()},
    }


def stored_post(document: Document) -> Fields:
    plain = ("did", "cid", "handle", "text", "parent_uri", "root_uri", "created_at", "sort_at", *POST_COUNTS)
    embed = document.get("embed", {})
    quote, video, card = (embed.get(name) for name in ("quote", "video", "external"))
    return {
        **{field: document.get(field) for field in plain},
        "langs": document.get("langs", []),
        "tags": document.get("tags", []),
        "facets": [
            tuple(facet[name] for name in ("start", "end", "kind", "value")) for facet in document.get("facets", ())
        ],
        "labels": stored_labels(document),
        "images": [
            (image.get("alt", ""), image.get("cid"), image.get("width"), image.get("height"))
            for image in embed.get("images", ())
        ],
        "video": video and (video.get("alt", ""), video.get("cid")),
        "external": card and (*(card.get(name, "") for name in ("url", "title", "description")), "thumb_url" in card),
        "quote": quote and (quote["uri"], quote["kind"], quote.get("text")),
    }


def wanted_facets(record: Told) -> list[tuple[int, int, str, str]]:
    """In code points of the text; without those whose bytes are not whole characters of it."""
    text, found = record["text"].encode(), []
    for facet in sorted(record.get("facets", ()), key=lambda facet: int(facet["index"]["byteStart"])):
        start, end = facet["index"]["byteStart"], facet["index"]["byteEnd"]
        try:
            first, last = len(text[:start].decode()), len(text[:end].decode())
        except UnicodeDecodeError:
            continue
        for feature in facet["features"] if start < end <= len(text) else ():
            kind = feature["$type"].partition("#")[2]
            found.append((first, last, kind, feature[FEATURES[kind]]))
    return found


def wanted_labels(told: Told, did: str, record: Told) -> list[tuple[str, str]]:
    """Those that labelers gave, and those that the author gave itself."""
    own = [(label["val"], did) for label in record.get("labels", {}).get("values", ())]
    return sorted([*own, *((label["val"], label["src"]) for label in told["labels"])])


def stored_labels(document: Document) -> list[tuple[str, str]]:
    return sorted((label["val"], label["src"]) for label in document.get("labels", ()))


def wanted_media(embed: Told) -> Fields:
    media = embed.get("media", embed)
    sizes = [image.get("aspectRatio", {}) for image in media.get("images", ())]
    card = media.get("external")
    return {
        "images": [
            (image["alt"], image["image"]["ref"]["$link"], size.get("width"), size.get("height"))
            for image, size in zip(media.get("images", ()), sizes, strict=True)
        ],
        "video": (media["alt"], media["video"]["ref"]["$link"]) if "video" in media else None,
        "external": card and (card["uri"], card["title"], card["description"], "thumb" in card),
    }


def wanted_quote(known: Known, post: Told) -> tuple[str, str, str | None] | None:
    """Address, kind and text of what is quoted."""
    if "quotes" not in post:
        return None
    quoted = known.posts[post["quotes"]]
    if quoted["by"] in known.opted_out:
        kind = "opted_out"
    elif not quoted["visible"]:
        kind = "not_found"
    elif known.is_blocked(post["by"], quoted["by"]):
        kind = "blocked"
    else:
        kind = "detached" if post["uri"] == known.truth["cases"]["detachedQuote"] else "post"
    return quoted["uri"], kind, quoted["record"]["text"] if kind == "post" else None
