"""A harvest of a few accounts, put where a crawl puts it: Alice, who is purged, and neighbours who stay."""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pymongo.database import Database

from harvester.config import Config
from harvester.items import Provenance, Record, Reject
from harvester.items.bluesky import (
    AccountList,
    Embed,
    Follow,
    Image,
    Like,
    ListItem,
    Post,
    Profile,
    Quote,
    Repost,
    Thread,
)
from harvester.jobs.documents import EndedAttempt, Item, ItemState, SavedResult, item_id, to_document
from harvester.pipelines.staging import staged_line
from harvester.stores.objects import LocalStore
from harvester.stores.rejects import rejected_line
from harvester.stores.staging import SUFFIX, SegmentWriter, read_segment
from tests.forking import run
from tests.root import ROOT

ALICE = "did:plc:alice"
ALICIA = "did:plc:alicea"
"""Begins like Alice's."""
BOB = "did:web:bob.example"
PROVENANCE = Provenance("https://example.com/?cursor=1", datetime(2026, 11, 20, tzinfo=UTC), "bluesky", "c-1")
SECRET = "What Alice wrote"
PICTURE = f"https://cdn.example.com/img/{ALICE}/bafyalice@jpeg"


def uri(did: str, key: str = "1", collection: str = "app.bsky.feed.post") -> str:
    return f"at://{did}/{collection}/{key}"


def _post(did: str, key: str, raw: Any, **fields: Any) -> Post:
    fields = {"text": f"post {key} of {did}"} | fields
    return Post(
        did=did,
        provenance=PROVENANCE,
        uri=uri(did, key),
        cid=f"bafy{key}",
        reply_count=0,
        repost_count=0,
        like_count=0,
        quote_count=0,
        raw=json.dumps(raw, indent=1).encode().replace(b"\n", b" "),
        **fields,
    )


def _view(did: str, key: str, text: str) -> dict[str, Any]:
    author = {"did": did, "handle": "x.example", "displayName": text}
    return {"uri": uri(did, key), "cid": f"bafy{key}", "author": author, "record": {"text": text}}


def _of(did: str, other: str) -> list[Record]:
    """Everything that an account has; `other` is an account it refers to."""
    raw = json.dumps({"did": did, "note": f"by {did}"}).encode()
    like = json.dumps({"subject": {"uri": uri(other), "cid": "bafy1"}}).encode()
    item = json.dumps({"uri": uri(did, f"i{other[-5:]}"), "subject": {"did": other}}).encode()
    return [
        Profile(
            did=did,
            provenance=PROVENANCE,
            handle=f"{did[-5:].lower()}.example",
            description=f"I am {did}",
            raw=raw,
        ),
        Follow(did=did, provenance=PROVENANCE, subject_did=other, raw=json.dumps({"did": other}).encode()),
        _post(did, "1", _view(did, "1", f"text of {did}")),
        Repost(did=did, provenance=PROVENANCE, subject_uri=uri(other), subject_did=other, raw=raw),
        Like(
            did=did,
            provenance=PROVENANCE,
            uri=uri(did, f"l{other[-5:]}"),
            subject_uri=uri(other),
            subject_did=other,
            raw=like,
        ),
        Thread(did=did, provenance=PROVENANCE, uri=uri(did), post_count=1, raw=raw),
        AccountList(
            did=did,
            provenance=PROVENANCE,
            uri=uri(did, "x"),
            cid="b",
            name="n",
            purpose="curatelist",
            raw=raw,
        ),
        ListItem(
            did=did,
            provenance=PROVENANCE,
            uri=uri(did, f"i{other[-5:]}"),
            list_uri=uri(did, "x"),
            subject_did=other,
            raw=item,
        ),
    ]


def _quoting(did: str) -> list[Record]:
    """Posts of an account that hold what Alice wrote, at two depths and in an embed of a kind not known."""
    quote = Quote(uri=uri(ALICE), kind="post", did=ALICE, handle="alice.example", cid="bafy1", text=SECRET)
    around = Quote(uri=uri(ALICIA), kind="post", did=ALICIA, text="around", embed=Embed(quote=quote))
    quoted = {"embed": {"record": _view(ALICE, "1", SECRET)}}
    own = (Image(url="https://cdn.example.com/own.jpg"),)
    unknown = ({"$type": "x.y", "record": _view(ALICE, "1", SECRET)},)
    return [
        _post(
            did,
            "q1",
            _view(did, "q1", "look") | quoted,
            embed=Embed(images=own, quote=quote),
            media_urls=(PICTURE, "https://cdn.example.com/own.jpg"),
        ),
        _post(did, "q2", _view(did, "q2", "look") | {"embed": {"deep": quoted}}, embed=Embed(quote=around)),
        _post(did, "q3", _view(did, "q3", "look") | quoted, embed=Embed(unknown=unknown)),
        _post(
            did,
            "q4",
            _view(did, "q4", f"I like {ALICE}"),
            text=f"I like {ALICE}",
            root_uri=uri(ALICE),
            parent_uri=uri(ALICE),
        ),
    ]


def alices() -> list[Record]:
    """What a purge of Alice removes: hers, and the edges that lead to her."""
    return _of(ALICE, BOB) + [r for r in _of(BOB, ALICE) + _of(ALICIA, ALICE) if getattr(r, "subject_did", "") == ALICE]


def neighbours() -> list[Record]:
    """What stays."""
    return _of(BOB, ALICIA) + _of(ALICIA, BOB) + _quoting(BOB)


def store(database: Database[dict[str, Any]], config: Config, *, with_alice: bool, times: int = 1) -> None:
    """Puts the harvest into MongoDB, pictures, staged lines (some left open by a killed run), rejects and job items."""
    records = (alices() if with_alice else []) + neighbours()
    for record in records:
        database[record.COLLECTION].replace_one({"_id": record.key}, record.to_document(), upsert=True)
    dids = (ALICE, ALICIA, BOB) if with_alice else (ALICIA, BOB)
    pictures = LocalStore(config.images_location)
    for did in dids:
        for path in ("pfp.jpg", "banner.jpg", "posts/bafy1_0.jpg"):
            pictures.write(f"{did}/{path}", did.encode())
    staging = config.data_dir / "staging" / "bluesky"
    for _ in range(times):
        _stage(staging, [(record.KIND, staged_line(record)) for record in records])
    _leave_open(staging, "post", [staged_line(record) for record in records if isinstance(record, Post)])
    rejects = [
        (kind, _at_noon(Reject(kind, "no rule", key.format(did=did), raw, PROVENANCE.url)))
        for did in dids
        for kind, key, raw in (
            ("post", "at://{did}/app.bsky.feed.post/9", b"{}"),
            ("follow", BOB + " {did}", b"{}"),
            ("follow", "{did} " + ALICIA, b"{}"),
            ("profile", "{did}", b'{"did": 3}'),
        )
    ]
    _stage(config.data_dir / "rejects" / "bluesky", rejects)
    for item in [item for did in dids for item in job_items(did)]:
        database["job_items"].replace_one({"_id": item.id}, to_document(item), upsert=True)


def job_items(did: str) -> list[Item]:
    """An account that is worked at, for the second time, and one of its threads, which waits for its next try."""
    at = PROVENANCE.fetched_at
    failed = EndedAttempt(1, at, ItemState.WAITING, "timeout", f"https://example.com/?actor={did}")
    later = {"attempts": 1, "failures": 1, "outcome": "timeout", "reason": f"{SECRET} of {did}", "history": (failed,)}
    said = SavedResult(2, ItemState.DONE, "ok", f"{SECRET} of {did}")
    worked_at = {"state": ItemState.ACTIVE, "stage": "profile_collected", "attempts": 2, "said": said, "feeder": "f"}
    return [
        _item("account", did, input={"handle": f"{did[-5:].lower()}.example"}, **later | worked_at),
        _item("thread", uri(did), due_at=at, **later),
    ]


def _item(kind: str, key: str, **fields: Any) -> Item:
    at = PROVENANCE.fetched_at
    return Item(id=item_id("c-1", kind, key), job="c-1", kind=kind, key=key, created_at=at, updated_at=at, **fields)


def _at_noon(reject: Reject) -> bytes:
    """The line, with a time that does not change from call to call."""
    return re.sub(rb'"rejected_at":"[^"]*"', b'"rejected_at":"2026-11-20T12:00:00Z"', rejected_line(reject))


def _stage(root: Path, lines: list[tuple[str, bytes]]) -> None:
    writer = SegmentWriter(root)
    for kind, line in lines:
        writer.write(kind, [line])
    writer.close()


def _leave_open(root: Path, kind: str, lines: list[bytes]) -> None:
    """As a killed run leaves it."""
    run("tests.privacy.leave_open", str(root), kind, cwd=ROOT, env=os.environ, stdin=b"\n".join(lines))


def documents(database: Database[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """All of MongoDB but for what is remembered of purges."""
    names = set(database.list_collection_names()) - {"purged"}
    return {name: found for name in sorted(names) if (found := list(database[name].find().sort("_id", 1)))}


def lines(config: Config) -> dict[str, list[bytes]]:
    """All staged and rejected lines: kind of folder -> lines, in no order. Segments left open are missing."""
    found: dict[str, list[bytes]] = {}
    for root in ("staging", "rejects"):
        for segment in (config.data_dir / root).rglob(f"*{SUFFIX}"):
            found.setdefault(f"{root}/{segment.parent.parent.name}", []).extend(read_segment(segment))
    return {name: sorted(of_kind) for name, of_kind in found.items() if of_kind}


def pictures(config: Config) -> dict[str, bytes]:
    root = Path(config.images_location)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
