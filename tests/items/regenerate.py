"""Writes down anew what is kept of Bluesky's records: python -m tests.items.regenerate. Read the difference."""

from pathlib import Path

from bson import json_util

from harvester.items import Record
from harvester.pipelines.staging import staged_line
from tests.items.bluesky_samples import bare, whole

KEPT = Path(__file__).with_name("bluesky_kept.txt")


def written(record: Record) -> str:
    """Collection, document, staged line and pictures of a record, a line each."""
    pictures = " ".join(f"{media.slot}={media.path}" for media in record.media())
    document = json_util.dumps(record.to_document(), ensure_ascii=False)
    return f"{record.COLLECTION}\n{document}\n{record.KIND} {staged_line(record).decode()}\n{pictures}\n"


def kept() -> str:
    return "\n".join(written(record) for record in (*whole(), *bare()))


if __name__ == "__main__":
    KEPT.write_text(kept(), "utf-8")
