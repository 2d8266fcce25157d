"""The content of events: a CloudEvents 1.0 envelope around a record, with equal bytes for every receiver and try."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from harvester.items.base import OUTBOX
from harvester.publish.outbox import content_of
from harvester.stores.tables import in_json

MEDIA_TYPE = "application/cloudevents+json"
_encode = msgspec.json.Encoder(enc_hook=in_json).encode


class Event(NamedTuple):
    """An event to send."""

    id: str
    """A digest of the record's kind, key and version, which is equal when it is sent again."""
    type: str
    """Type such as `harvester.post.created`."""
    topic: str
    """Topic such as `bluesky.post.created`: spider, kind and change, for brokers."""
    body: bytes
    """JSON."""


def event_of(kind: str, record: Mapping[str, Any], change: str, source: str) -> Event:
    """Returns the event for a stored document. A document has no mark if it was stored while nothing was published."""
    data = {name: value for name, value in record.items() if name != OUTBOX}
    key, provenance = record["_id"], record["provenance"]
    mark = record.get(OUTBOX) or {"version": 0, "content": content_of(record)}
    version, at = mark["version"], mark.get("at") or provenance["fetched_at"]
    name = sha256("\0".join((kind, key, str(version), mark["content"])).encode("utf-8", "replace")).hexdigest()[:32]
    type_ = f"harvester.{kind}.{change}"
    about = {"subject": key, "time": written(at), "sequence": f"{version:010}"}
    return Event(name, type_, f"{provenance['spider']}.{kind}.{change}", body_of(name, source, type_, about, data))


def test_event(source: str) -> Event:
    """Returns a new event without a record."""
    name = uuid4().hex
    body = body_of(name, source, "harvester.test", {"time": written(datetime.now(UTC))}, {})
    return Event(name, "harvester.test", "harvester.test", body)


def body_of(name: str, source: str, type_: str, about: Mapping[str, str], data: Mapping[str, Any]) -> bytes:
    """Returns the envelope of an event with this id, as JSON."""
    event = {"specversion": "1.0", "id": name, "source": source, "type": type_, **about}
    return _encode(event | {"datacontenttype": "application/json", "data": data})


def written(at: datetime) -> str:
    """Returns the time in the form of RFC 3339."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
