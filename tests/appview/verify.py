"""Whether the AppView serves what truth.json tells: when it does not, no harvest can be blamed."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.appview.known import Known, tell
from tests.appview.shown import wanted_profile


def verify(addresses: dict[str, Any]) -> list[str]:
    """The differences between the truth and what the API shows to anyone, in words."""
    known = Known(json.loads(Path(addresses["truth"]).read_text()))
    service = addresses["appview"]
    wrong: list[str] = []

    def same(what: str, got: Iterable[str], wanted: Iterable[str]) -> None:
        got, wanted = sorted(got), sorted(wanted)
        if got != wanted:
            extra, missing = sorted(set(got) - set(wanted)), sorted(set(wanted) - set(got))
            wrong.append(f"{what}: {len(got)} for {len(wanted)}, missing {missing[:2]}, too many {extra[:2]}")

    for did, account in known.accounts.items():
        who = known.name(did)
        profile = ask(service, "app.bsky.actor.getProfile", actor=did)
        same(f"visibility of {who}", [str("did" in profile)], [str(account["visible"])])
        if not account["visible"]:
            continue
        for direction in ("follows", "followers"):
            method = f"app.bsky.graph.get{direction.capitalize()}"
            shown = [other["did"] for other in pages(service, method, direction, actor=did)]
            same(f"{direction} of {who}", shown, account[direction])
        feed = pages(service, "app.bsky.feed.getAuthorFeed", "feed", actor=did, filter="posts_with_replies")
        posts = [item["post"] for item in feed if "reason" not in item]
        reposts = [item["post"]["uri"] for item in feed if "reason" in item]
        visible = [post for post in known.posts.values() if post["by"] == did and post["visible"]]
        same(f"posts of {who}", (p["uri"] for p in posts), (p["uri"] for p in visible))
        same(f"texts of {who}", (p["record"]["text"] for p in posts), (p["record"]["text"] for p in visible))
        made = (made for made in known.truth["reposts"] if made["by"] == did and made["visible"])
        same(f"reposts of {who}", reposts, (repost["subject"] for repost in made))
        for post in visible:
            if not post.get("root") and known.replies.get(post["uri"]):
                thread = ask(service, "app.bsky.feed.getPostThread", uri=post["uri"], depth=100)
                same(f"thread {post['uri']} of {who}", below(thread["thread"]), known.thread(post["uri"]))
        same(f"labels of {who}", labels(profile), (f"{val} {src}" for val, src in wanted_profile(account)["labels"]))
    for each in known.truth["lists"]:
        if each["purpose"] != "starterpack":
            items = pages(service, "app.bsky.graph.getList", "items", list=each["uri"])
            same(f"members of {each['uri']}", (item["subject"]["did"] for item in items), each["members"])
    return tell("things are not as the truth tells", wrong)


def ask(service: str, method: str, **parameters: object) -> dict[str, Any]:
    """The answer, be it an error or not."""
    address = f"{service}/xrpc/{method}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(address, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            answer = json.load(error)
    return answer


def pages(service: str, method: str, field: str, **parameters: object) -> list[dict[str, Any]]:
    """What is in all pages of a list."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = ask(service, method, limit=100, **parameters, **cursor)
        found += page[field]
        if "cursor" not in page:
            return found
        cursor = {"cursor": page["cursor"]}


def labels(view: dict[str, Any]) -> list[str]:
    """Labels and who gave them."""
    return [f"{label['val']} {label['src']}" for label in view.get("labels") or []]


def below(thread: dict[str, Any]) -> list[str]:
    """The uris of all replies in a thread."""
    replies = thread.get("replies") or []
    return [uri for reply in replies for uri in (reply["post"]["uri"], *below(reply))]
