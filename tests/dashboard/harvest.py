"""A made-up harvest in MongoDB: circles of friends who post, reply and link, with a few absurd dates among it."""

import io
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from pymongo.database import Database

from harvester.items import Provenance, Record
from harvester.items.bluesky import Embed, External, Facet, Follow, Post, Profile, Thread
from harvester.jobs.documents import Item, ItemState, Job, JobState, item_id, to_document

JOB = "bluesky-made-up-1"
TAGS = ("art", "openscience", "photography", "caturday", "夏休み", "climate", "gardening", "bluesky", "été")
DOMAINS = ("example.com", "www.nature.example", "blog.example.org", "video.example.net", "news.example")
LANGUAGES = ("en", "en-US", "ja", "pt", "de", "es", "fr")
LAST_DAY = datetime(2026, 11, 1, tzinfo=UTC)


def did(number: int) -> str:
    return f"did:plc:{number:024d}"


def fill(
    database: Database[dict[str, Any]], images: Path, accounts: int = 200, posts: int = 2000, days: int = 300
) -> None:
    """Writes accounts (three of four with an avatar), follows, posts, threads, and one job with its items."""
    chance = random.Random(accounts)
    provenance = Provenance("https://api.example", LAST_DAY, "bluesky", JOB)
    records: list[Record] = []
    for number in range(accounts):
        records.append(_profile(number, images, provenance))
        records += [
            Follow(did=did(number), subject_did=did(other), provenance=provenance)
            for other in _friends(number, accounts, chance)
        ]
    texts = [_post(number, accounts, days, provenance, chance) for number in range(posts)]
    records += texts
    records += [
        Thread(did=post.did, uri=post.uri, post_count=3 + index * index, provenance=provenance)
        for index, post in enumerate(texts[:15])
    ]
    for record in records:
        database[record.COLLECTION].insert_one(record.to_document())
    items = [item(JOB, n, ItemState.FAILED if n % 50 == 49 else ItemState.DONE) for n in range(accounts)]
    database["job_items"].insert_many([to_document(each) for each in items])
    job = Job(
        id=JOB,
        spider="bluesky",
        scope="made-up",
        number=1,
        state=JobState.FINISHED,
        created_at=LAST_DAY - timedelta(days=1),
        started_at=LAST_DAY,
        ended_at=LAST_DAY + timedelta(minutes=42),
    )
    database["jobs"].insert_one(to_document(job))


def item(job: str, number: int, state: ItemState) -> Item:
    """An account as an item of a job."""
    key = did(number)
    return Item(
        id=item_id(job, "account", key),
        job=job,
        kind="account",
        key=key,
        state=state,
        created_at=LAST_DAY,
        updated_at=LAST_DAY,
    )


def _profile(number: int, images: Path, provenance: Provenance) -> Profile:
    paths = {}
    if number % 4:
        paths["avatar"] = f"{did(number)}/pfp.jpg"
        avatar = images / did(number) / "pfp.jpg"
        avatar.parent.mkdir(parents=True, exist_ok=True)
        avatar.write_bytes(_avatar(number))
    return Profile(
        did=did(number),
        handle=f"person-{number}.example",
        display_name=("<script>alert(1)</script>", "Zoë Größer", "佐藤 弘", "June Park", "A & B")[number % 5]
        + f" {number}",
        media_paths=paths,
        provenance=provenance,
    )


def _avatar(number: int) -> bytes:
    picture = Image.new("RGB", (200, 200), f"hsl({number * 47 % 360}, 55%, 60%)")
    draw = ImageDraw.Draw(picture)
    draw.ellipse((60, 30, 140, 110), fill=f"hsl({number * 91 % 360}, 45%, 85%)")
    draw.ellipse((20, 120, 180, 280), fill=f"hsl({number * 91 % 360}, 45%, 35%)")
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG")
    return buffer.getvalue()


def _friends(number: int, accounts: int, chance: random.Random) -> set[int]:
    """Mostly of the own circle (one of five), the first of each circle above all."""
    circle = range(number % 5, accounts, 5)
    chosen = {circle[int(len(circle) * chance.random() ** 3)] for _ in range(12)}
    chosen |= {int(accounts * chance.random() ** 2) for _ in range(3)}
    return chosen - {number}


def _post(number: int, accounts: int, days: int, provenance: Provenance, chance: random.Random) -> Post:
    author = int(accounts * chance.random() ** 2)
    at = LAST_DAY - timedelta(days=days * chance.random() ** 1.5)
    if number in (5, 6):
        at = at.replace(year=1999 if number == 5 else 2099, month=1, day=1)
    facets = [Facet(0, 3, "tag", TAGS[int(len(TAGS) * chance.random() ** 2)])] if chance.random() < 0.6 else []
    if chance.random() < 0.2:
        facets.append(Facet(4, 8, "link", f"https://{chance.choice(DOMAINS)}/page/{number}"))
    card = External(f"https://{DOMAINS[0]}/card/{number}", "A card") if chance.random() < 0.1 else None
    return Post(
        did=did(author),
        uri=f"at://{did(author)}/app.bsky.feed.post/3k{number:011d}",
        cid=f"bafy{number}",
        handle=f"person-{author}.example",
        text=f"Post {number}: the harbour was quiet this morning, even the <gulls> slept & nobody spoke of the tide",
        created_at=at,
        indexed_at=at,
        sort_at=at,
        langs=(LANGUAGES[int(len(LANGUAGES) * chance.random() ** 2)],),
        facets=tuple(facets),
        reply_count=0,
        repost_count=0,
        like_count=0,
        quote_count=0,
        embed=Embed(external=card) if card else None,
        provenance=provenance,
    )
