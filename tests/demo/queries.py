"""Questions to a harvest in MongoDB, as they are typed."""

from typing import Any

from pymongo.database import Database

QUERIES = (
    (
        "Who is followed most within the slice?",
        """\
db.follows.aggregate([
  {"$group": {"_id": "$subject_did", "followers": {"$sum": 1}}},
  {"$sort": {"followers": -1, "_id": 1}}, {"$limit": 5},
  {"$lookup": {"from": "profiles", "localField": "_id", "foreignField": "_id", "as": "profile"}},
  {"$project": {"_id": 0, "followers": 1, "handle": {"$first": "$profile.handle"}}}])""",
    ),
    (
        "Which hashtags are busiest?",
        """\
db.posts.aggregate([
  {"$unwind": "$facets"}, {"$match": {"facets.kind": "tag"}},
  {"$group": {"_id": "$facets.value", "posts": {"$sum": 1}}},
  {"$sort": {"posts": -1, "_id": 1}}, {"$limit": 5},
  {"$project": {"_id": 0, "posts": 1, "hashtag": "$_id"}}])""",
    ),
    (
        "How did the longest thread begin?",
        """\
db.threads.aggregate([
  {"$sort": {"post_count": -1, "_id": 1}}, {"$limit": 1},
  {"$lookup": {"from": "posts", "localField": "_id", "foreignField": "_id", "as": "post"}},
  {"$unwind": "$post"},
  {"$project": {"_id": 0, "posts": "$post_count", "handle": "$post.handle", "text": "$post.text_clean"}}])""",
    ),
)
"""(question, query)."""


def answer(database: Database[dict[str, Any]], query: str) -> list[dict[str, Any]]:
    """The documents that one of QUERIES finds."""
    documents: list[dict[str, Any]] = list(eval(query, {"db": database}))  # our own text, shown as it runs
    return documents
