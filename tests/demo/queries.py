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
COUNTY_QUERIES = (
    (
        "How many parcels are there, what are they worth, in which year, and what is billed for it?",
        """\
db.assessments.aggregate([
  {"$group": {"_id": "$tax_year", "parcels": {"$sum": 1}, "worth": {"$sum": "$total_value"}}},
  {"$sort": {"_id": 1}},
  {"$lookup": {"from": "tax_bills", "localField": "_id", "foreignField": "tax_year", "as": "bills"}},
  {"$project": {"_id": 0, "year": "$_id", "parcels": 1, "worth": 1, "billed": {"$sum": "$bills.billed"}}}])""",
    ),
    (
        "Which bill is the highest, and what does its PDF say?",
        """\
db.tax_bills.aggregate([
  {"$match": {"media_contents.bill.text": {"$exists": True}}},
  {"$sort": {"billed": -1}}, {"$limit": 1},
  {"$project": {"_id": 0, "file": "$media_paths.bill", "text": "$media_contents.bill.text"}}])""",
    ),
    (
        "Which bills have no PDF that can be read, and why?",
        """\
db.tax_bills.aggregate([
  {"$match": {"media_contents.bill.problem": {"$exists": True}}},
  {"$group": {"_id": {"$first": {"$split": ["$media_contents.bill.problem", ":"]}}, "bills": {"$sum": 1}}},
  {"$sort": {"_id": 1}}, {"$project": {"_id": 0, "bills": 1, "reason": "$_id"}}])""",
    ),
)
"""Of the county."""


def answer(database: Database[dict[str, Any]], query: str) -> list[dict[str, Any]]:
    """The documents that one of QUERIES finds."""
    documents: list[dict[str, Any]] = list(eval(query, {"db": database}))  # our own text, shown as it runs
    return documents
