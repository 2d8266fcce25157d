"""What must hold of the events that a receiver got, however often those who sent them were killed."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pymongo.database import Database

from harvester.items.base import OUTBOX

Document = dict[str, Any]


def faults(events: Iterable[Document], database: Database[Document]) -> list[str]:
    """Why these are not all records of the database in the order of their versions, doubles with one id."""
    said: list[str] = []
    versions: dict[tuple[str, str], str] = {}
    by_id: dict[str, str] = {}
    latest: dict[tuple[str, str], Document] = {}
    for event in events:
        kind, change = event["type"].split(".")[1:]
        of = kind, event["subject"]
        if event["sequence"] < versions.get(of, ""):
            said.append(f"{of}: version {event['sequence']} came after {versions[of]}")
        if of not in versions and change != "created":
            said.append(f"{of}: it was {change} before anybody was told of it")
        versions[of] = event["sequence"]
        data = {name: value for name, value in event["data"].items() if name != "provenance"}
        text = json.dumps(event | {"data": data}, sort_keys=True)  # seen again as it was, a record is no new version
        if by_id.setdefault(event["id"], text) != text:
            said.append(f"{of}: a double of {event['id']} says something else")
        latest[of] = event
    return said + _differences(latest, database)


def _differences(latest: Mapping[tuple[str, str], Document], database: Database[Document]) -> list[str]:
    said = []
    stored = 0
    for outbox in database["publishing"].find({"what": "outbox"}):
        for row in database[outbox["collection"]].find():
            stored += 1
            event = latest.get((outbox["kind"], row["_id"]))
            if event is None:
                said.append(f"{outbox['kind']} {row['_id']} did not arrive")
            elif int(event["sequence"]) != row[OUTBOX]["version"]:
                said.append(f"{outbox['kind']} {row['_id']}: {event['sequence']} came, of {row[OUTBOX]['version']}")
    return said + ([] if stored else ["nothing is stored"])
