"""The profile records of the accounts, and the profile fields in views."""

from functools import lru_cache
from typing import Any

from harvester.sandbox import images
from harvester.sandbox.ids import record_cid, timestamp
from harvester.sandbox.network import Network
from harvester.sandbox.posts import DAY_MS, START_MS, Posts
from harvester.sandbox.words import BIOS, NAMES, ODD_NAMES

Record = dict[str, Any]

LABELER = "did:plc:sandboxlabelersandboxla"
"""DID of the service that labels other people's accounts and posts."""


class Profiles:
    """Names, descriptions and pictures of the accounts."""

    def __init__(self, network: Network, posts: Posts) -> None:
        self.network = network
        self._posts = posts
        self.cid = lru_cache(10_000)(self._cid)

    def exists(self, index: int) -> bool:
        return self.network.kind(index) != "no_profile"

    def display_name(self, index: int) -> str | None:
        """Returns the display name; None when the record lacks one."""
        dice = self.network.number(index, 61) % 100 if index else 50
        if dice < 6:
            return ODD_NAMES[index % len(ODD_NAMES)]
        if dice < 10:
            return ""
        if dice < 13:
            return None
        bearer = index // len(NAMES)
        return NAMES[index % len(NAMES)][1] + (f" {bearer}" if bearer else "")

    def description(self, index: int) -> str:
        return BIOS[self.network.number(index, 62) % len(BIOS) if index else 0].replace("{n}", str(index))

    def created_ms(self, index: int) -> int:
        return START_MS - (1 + self.network.number(index, 63) % 500) * DAY_MS

    def avatar(self, index: int) -> images.Picture | None:
        dice = self.network.number(index, 64)
        return images.picture("avatar", dice % images.POOL["avatar"]) if index == 0 or dice % 10 < 8 else None

    def banner(self, index: int) -> images.Picture | None:
        dice = self.network.number(index, 65)
        return images.picture("banner", dice % images.POOL["banner"]) if index == 0 or dice % 10 < 4 else None

    def labels(self, index: int) -> list[Record]:
        """Returns the labels in views: the author's own and the labeler's."""
        kind = self.network.kind(index)
        if kind not in ("private", "labelled"):
            return []
        did = self.network.did(index)
        return [
            {
                "src": did if kind == "private" else LABELER,
                "uri": f"at://{did}/app.bsky.actor.profile/self",
                "cid": self.cid(index),
                "val": "!no-unauthenticated" if kind == "private" else "spam",
                "cts": timestamp(self.created_ms(index)),
            }
        ]

    def record(self, index: int) -> Record | None:
        """Returns the profile record in the repository."""
        if not self.exists(index):
            return None
        record: Record = {"$type": "app.bsky.actor.profile", "description": self.description(index)}
        name = self.display_name(index)
        if name is not None:
            record["displayName"] = name
        for field, drawn in (("avatar", self.avatar(index)), ("banner", self.banner(index))):
            if drawn is not None:
                ref = {"$link": drawn.cid}
                record[field] = {"$type": "blob", "ref": ref, "size": len(drawn.content), "mimeType": drawn.mime}
        if self.network.kind(index) == "private":
            values = [{"val": "!no-unauthenticated"}]
            record["labels"] = {"$type": "com.atproto.label.defs#selfLabels", "values": values}
        pinned = self._posts.pinned(index)
        if pinned is not None:
            record["pinnedPost"] = self._posts.strong_ref(pinned)
        record["createdAt"] = timestamp(self.created_ms(index))
        return record

    def _cid(self, index: int) -> str:
        return record_cid(self.record(index) or {})
