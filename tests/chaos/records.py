"""What the spider `tree` stores."""

from typing import Any

from harvester.items import Media, Record
from tests.sandbox.tree import Item, Tree

Document = dict[str, Any]


class TreeItem(Record, frozen=True, kw_only=True, gc=False):
    """An item of a page of the tree."""

    KIND = "tree_item"
    COLLECTION = "tree_items"
    KEY = ("page", "part")
    MEDIA_FIXED = True

    page: int
    part: str
    value: int
    picture_url: str | None = None

    def media(self) -> list[Media]:
        return [Media(self.picture_url, picture_path(self.page), "picture")] if self.picture_url else []


def picture_path(page: int) -> str:
    return f"tree/{page}.jpg"


def documents(tree: Tree, url: str) -> dict[str, Document]:
    """What a whole crawl of the tree at `url` stores: key -> document without its provenance."""
    return dict(_document(item, url) for item in tree.all_items())


def _document(item: Item, url: str) -> tuple[str, Document]:
    document: Document = {"page": item.page, "part": item.part, "value": item.value}
    if item.picture:
        document["picture_url"] = url + item.picture
        document["media_paths"] = {"picture": picture_path(item.page)}
    return f"{item.page} {item.part}", document
