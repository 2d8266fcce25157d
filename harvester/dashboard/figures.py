"""The figures of a harvest, counted by MongoDB. Their size is bounded, however large the harvest is."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import islice
from typing import Any

from pymongo.database import Database

from harvester.items import RECORDS, Record
from harvester.items.other import know_collections
from harvester.jobs.documents import ITEMS, JOBS, ItemState

Document = dict[str, Any]

MOST_PEOPLE = 150
"""Maximum number of accounts in the picture of the follow graph."""

MOST_ROWS = 12
"""Maximum number of lines of a ranking."""

WORTH = (50_000, 100_000, 200_000, 300_000, 500_000, 750_000, 1_000_000)
"""Upper limits of the bars for the tax roll's values."""

_CANDIDATES = 4 * MOST_PEOPLE
"""Number of accounts to look up, the most followed first, because some followed accounts were not collected."""


@dataclass(frozen=True)
class Person:
    """An account in the picture."""

    did: str
    handle: str
    name: str
    followers: int
    """Number of followers within the harvest."""
    picture: str
    """Path of the avatar below the images location; empty without an avatar."""
    followers_count: int | None = None
    """Number of all followers, from its profile."""
    posts: int = 0
    """Number of the account's posts in the harvest."""


@dataclass(frozen=True)
class TopPost:
    """A post with many likes and reposts."""

    uri: str
    handle: str
    text: str
    at: datetime | None
    likes: int
    reposts: int
    replies: int


@dataclass(frozen=True)
class ThreadFigure:
    """A conversation, identified by its first post."""

    uri: str
    handle: str
    text: str
    posts: int


@dataclass
class Figures:
    """All data of the report. Rankings are (label, count), the largest first."""

    database: str
    job: str
    """Id of the job. Empty: the figures cover all jobs."""
    counts: dict[str, int] = field(default_factory=dict)
    """Collection -> number of documents."""
    items: dict[str, dict[str, int]] = field(default_factory=dict)
    """Kind of job item -> state -> number of items."""
    pictures: int = 0
    pdfs: int = 0
    began: datetime | None = None
    ended: datetime | None = None
    people: list[Person] = field(default_factory=list)
    follows: list[tuple[int, int]] = field(default_factory=list)
    """Follows among `people`: pairs of positions."""
    days: dict[date, int] = field(default_factory=dict)
    """Day -> number of posts."""
    hashtags: list[tuple[str, int]] = field(default_factory=list)
    languages: list[tuple[str, int]] = field(default_factory=list)
    domains: list[tuple[str, int]] = field(default_factory=list)
    posts: list[TopPost] = field(default_factory=list)
    threads: list[ThreadFigure] = field(default_factory=list)
    worth: list[tuple[str, int]] = field(default_factory=list)
    """Number of values in the tax roll by range, from the lowest to the highest."""
    uses: list[tuple[str, int]] = field(default_factory=list)
    """Uses of land."""
    sale_days: dict[date, int] = field(default_factory=dict)
    """Day -> number of sales."""


def gather(database: Database[Document], job: str = "") -> Figures:
    """Counts everything. With `job`, only records that this job observed last."""
    figures = Figures(database.name, job)
    _Gatherer(database, job, figures).run()
    return figures


class _Gatherer:
    def __init__(self, database: Database[Document], job: str, figures: Figures) -> None:
        self.database = database
        self.job = job
        self.figures = figures
        self.of_job: Document = {"provenance.crawl": job} if job else {}

    def run(self) -> None:
        figures = self.figures
        know_collections(self.database.list_collection_names())
        for record in RECORDS.values():
            figures.counts[record.COLLECTION] = self._count(record.COLLECTION)
        for record in RECORDS.values():
            if record.media is not Record.media:
                self._files(record.COLLECTION)
        self._jobs()
        self._graph()
        day = {"$dateTrunc": {"date": {"$ifNull": ["$sort_at", "$created_at"]}, "unit": "day"}}
        rows = self._rows("posts", {"$group": {"_id": day, "n": {"$sum": 1}}})
        figures.days = {row["_id"].date(): row["n"] for row in rows if row["_id"]}
        figures.hashtags = self._ranking(_HASHTAGS)
        figures.languages = self._ranking(_LANGUAGES)
        figures.domains = self._ranking(_DOMAINS)
        figures.posts = self._posts()
        figures.threads = self._threads()
        figures.worth = self._worth()
        use = {"$ifNull": ["$use_description", "$use_code"]}
        figures.uses = self._labels("properties", {"$match": {"use_code": {"$ne": None}}}, *_most(MOST_ROWS, use))
        rows = self._rows("sales", {"$group": {"_id": "$sale_date", "n": {"$sum": 1}}})
        figures.sale_days = {date.fromisoformat(row["_id"]): row["n"] for row in rows if row["_id"]}

    def _count(self, collection: str) -> int:
        return self.database[collection].count_documents(self.of_job)  # MongoDB's estimate is wrong after a kill

    def _rows(self, collection: str, *stages: Document) -> list[Document]:
        pipeline = [{"$match": self.of_job}, *stages]
        return list(self.database[collection].aggregate(pipeline, allowDiskUse=True))

    def _files(self, collection: str) -> None:
        is_pdf = {"$regexMatch": {"input": "$file.v", "regex": "[.]pdf$"}}
        paths = {"$project": {"file": {"$objectToArray": "$media_paths"}}}
        for row in self._rows(collection, paths, {"$unwind": "$file"}, {"$group": {"_id": is_pdf, "n": {"$sum": 1}}}):
            if row["_id"]:
                self.figures.pdfs += row["n"]
            else:
                self.figures.pictures += row["n"]

    def _jobs(self) -> None:
        matching = {"job": self.job} if self.job else {}
        alike = {"kind": "$kind", "state": "$state"}
        rows = self.database[ITEMS].aggregate([{"$match": matching}, {"$group": {"_id": alike, "n": {"$sum": 1}}}])
        found = {(row["_id"]["kind"], row["_id"]["state"]): row["n"] for row in rows}
        for kind in sorted({kind for kind, _ in found}):
            self.figures.items[kind] = {state: found[kind, state] for state in ItemState if (kind, state) in found}
        span: Document = {"_id": None, "began": {"$min": "$started_at"}, "ended": {"$max": "$ended_at"}}
        matching = {"_id": self.job} if self.job else {}
        for row in self.database[JOBS].aggregate([{"$match": matching}, {"$group": span}]):
            self.figures.began, self.figures.ended = row["began"], row["ended"]

    def _graph(self) -> None:
        """Finds the most followed accounts, and the follows among them."""
        rows = self._rows("follows", *_most(_CANDIDATES, "$subject_did"))
        followers = {row["_id"]: row["n"] for row in rows}
        found = self.database["profiles"].find(
            {"_id": {"$in": list(followers)}},
            {"handle": 1, "display_name": 1, "display_name_clean": 1, "media_paths.avatar": 1, "followers_count": 1},
        )
        profiles = {profile["_id"]: profile for profile in found}
        people = [did for did in followers if did in profiles] or list(followers)
        people = people[:MOST_PEOPLE]
        of_people = {"$match": {"did": {"$in": people}}}
        posts = {row["_id"]: row["n"] for row in self._rows("posts", of_people, *_most(MOST_PEOPLE, "$did"))}
        for did in people:
            profile = profiles.get(did, {})
            handle = profile.get("handle") or did
            name = profile.get("display_name_clean") or profile.get("display_name") or handle
            picture = profile.get("media_paths", {}).get("avatar", "")
            known = profile.get("followers_count")
            person = Person(did, handle, name, followers[did], picture, known, posts.get(did, 0))
            self.figures.people.append(person)
        self._edges()

    def _edges(self) -> None:
        """Finds the follows by key, so the cost does not depend on the number of all follows."""
        position = {person.did: index for index, person in enumerate(self.figures.people)}
        keys = (f"{one} {other}" for one in position for other in position if one != other)
        while chunk := list(islice(keys, 5000)):
            for edge in self.database["follows"].find({"_id": {"$in": chunk}, **self.of_job}, {"_id": 1}):
                one, other = edge["_id"].split(" ")
                self.figures.follows.append((position[one], position[other]))
        self.figures.follows.sort()

    def _ranking(self, stages: Iterable[Document]) -> list[tuple[str, int]]:
        return self._labels("posts", *stages)

    def _labels(self, collection: str, *stages: Document) -> list[tuple[Any, int]]:
        return [(row["_id"], row["n"]) for row in self._rows(collection, *stages)]

    def _worth(self) -> list[tuple[str, int]]:
        """Counts the values in each range of WORTH. Values of 0 are left out: most stand for a missing value."""
        worth = {"$ifNull": ["$market_value", "$total_value"]}
        bounds = [0, *WORTH, float("inf")]
        bucket = {"$bucket": {"groupBy": worth, "boundaries": bounds, "output": {"n": {"$sum": 1}}}}
        counts = dict(self._labels("assessments", {"$match": {"$expr": {"$gt": [worth, 0]}}}, bucket))
        ends = [*(f"to {end:,}" for end in WORTH), "and more"]
        return [(f"{start:,} {end}", counts.get(start, 0)) for start, end in zip(bounds, ends, strict=False) if counts]

    def _posts(self) -> list[TopPost]:
        """Returns the posts with the most likes and reposts."""
        parts = [{"$ifNull": [f"${name}", 0]} for name in ("like_count", "repost_count", "quote_count")]
        rows = self._rows(
            "posts",
            {"$project": {"score": {"$add": parts}}},
            {"$match": {"score": {"$gt": 0}}},
            {"$sort": {"score": -1, "_id": 1}},
            {"$limit": MOST_ROWS},
        )
        found = self.database["posts"].find({"_id": {"$in": [row["_id"] for row in rows]}})
        posts = {post["_id"]: post for post in found}
        return [
            TopPost(
                row["_id"],
                post.get("handle") or post["did"],
                post.get("text_clean") or post.get("text") or "",
                post.get("sort_at") or post.get("created_at"),
                post.get("like_count") or 0,
                (post.get("repost_count") or 0) + (post.get("quote_count") or 0),
                post.get("reply_count") or 0,
            )
            for row in rows
            if (post := posts.get(row["_id"]))
        ]

    def _threads(self) -> list[ThreadFigure]:
        longest = self._rows("threads", {"$sort": {"post_count": -1, "_id": 1}}, {"$limit": MOST_ROWS})
        uris = [thread["_id"] for thread in longest]
        wanted = {"handle": 1, "text": 1, "text_clean": 1}
        posts = {post["_id"]: post for post in self.database["posts"].find({"_id": {"$in": uris}}, wanted)}
        threads = []
        for thread in longest:
            post = posts.get(thread["_id"], {})
            text = post.get("text_clean") or post.get("text") or ""
            threads.append(ThreadFigure(thread["_id"], post.get("handle") or thread["did"], text, thread["post_count"]))
        return threads


def _most(count: int, label: str | Document) -> list[Document]:
    """Returns stages that count by label: the most frequent first, then in the order of labels."""
    return [
        {"$group": {"_id": label, "n": {"$sum": 1}}},
        {"$sort": {"n": -1, "_id": 1}},
        {"$limit": count},
    ]


def _facet_values(kind: str) -> Document:
    """Returns an expression for the values of a post's facets of a kind."""
    facets = {"$filter": {"input": {"$ifNull": ["$facets", []]}, "cond": {"$eq": ["$$this.kind", kind]}}}
    return {"$map": {"input": facets, "in": "$$this.value"}}


def _per_post(labels: Document) -> list[Document]:
    """Returns stages that rank labels by the number of posts; a label counts once per post."""
    return [
        {"$project": {"label": {"$setUnion": [labels]}}},
        {"$unwind": "$label"},
        {"$match": {"label": {"$nin": ["", None]}}},
        *_most(MOST_ROWS, "$label"),
    ]


def _each(values: Document, expression: Document) -> Document:
    return {"$map": {"input": values, "in": expression}}


_HASHTAGS = _per_post(
    _each({"$concatArrays": [{"$ifNull": ["$tags", []]}, _facet_values("tag")]}, {"$toLower": "$$this"})
)
_LANGUAGES = _per_post(
    _each({"$ifNull": ["$langs", []]}, {"$toLower": {"$arrayElemAt": [{"$split": ["$$this", "-"]}, 0]}})
)
_WITHOUT_WWW = {"$replaceOne": {"input": "$$this", "find": "://www.", "replacement": "://"}}
_HOST = {"$toLower": {"$arrayElemAt": [{"$split": [_WITHOUT_WWW, "/"]}, 2]}}
_LINKS = {"$concatArrays": [[{"$ifNull": ["$embed.external.url", ""]}], _facet_values("link")]}
_DOMAINS = _per_post(_each(_LINKS, _HOST))
