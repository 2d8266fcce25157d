"""The posts of the generated network, with threads, reposts and likes, computed in both directions."""

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from harvester.sandbox import images
from harvester.sandbox.ids import mix, record_cid, tid, tid_micros, timestamp
from harvester.sandbox.network import Network
from harvester.sandbox.words import SENTENCES, TAGS

Record = dict[str, Any]

START_MS = 1_704_067_200_000
"""Time of the first possible post in milliseconds: 2024-01-01."""

DAY_MS = 86_400_000


class SandboxPost(NamedTuple):
    """A post by its account and number; number 0 is the account's oldest."""

    author: int
    number: int


class SandboxRepost(NamedTuple):
    """A repost by its account and number."""

    by: int
    number: int


BIG_ROOT = SandboxPost(0, 6)
"""Root of a thread with about 150 replies at its first level, by accounts 16 to 205."""

POPULAR = SandboxPost(0, 3)
"""The post that nearly everybody likes."""

DEEP_ROOT = SandboxPost(0, 100)
DEEP_REPLIES = 60
"""Length of the deep thread: each post of account 0 after the deep root answers the one before."""

_BIG_AUTHORS = range(16, 206)
_REPOSTS, _LIKES = 8, 6
_QUOTE_SLOTS = ("missing", "blocked", "detached", "generator", "list", "labeler", "starterpack", "hidden")


class Posts:
    """Everything that the accounts of a network write, answer, repost and like."""

    def __init__(self, network: Network, mean: int = 30) -> None:
        self.network = network
        self.mean = mean
        self._ask, self._answer = network.permutation(201), network.permutation(202)
        self._quote = network.permutation(203)
        self._repost = [network.permutation(300 + k) for k in range(_REPOSTS)]
        self._like = [network.permutation(400 + k) for k in range(_LIKES)]
        self.count: Callable[[int], int] = lru_cache(100_000)(self._count)
        """Returns the number of an account's posts: `mean` on average, many for account 0."""
        self._step_ms = min(5 * 3_600_000 + 17 * 60_000, 500 * DAY_MS // max(1, self.count(0)))
        self.record: Callable[[SandboxPost], Record] = lru_cache(50_000)(self._record)
        self.cid: Callable[[SandboxPost], str] = lru_cache(200_000)(self._cid)

    # Posts

    def _count(self, index: int) -> int:
        if self.mean == 0 or index >= self.network.size or self.network.kind(index) == "empty":
            return 0
        if index == 0:
            return max(self.mean * 10, 250)
        dice, size = self.network.number(index, 11) % 100, self.network.number(index, 12)
        if dice < 10:
            found = 0
        elif dice < 60:
            found = size % (self.mean + 1)
        elif dice < 95:
            found = self.mean + size % (self.mean + 1)
        else:
            found = 4 * self.mean + size % (self.mean + 1)
        return max(found, min(self.mean, 8)) if index < 16 else found

    def exists(self, post: SandboxPost) -> bool:
        return 0 <= post.number < self.count(post.author)

    def time_ms(self, post: SandboxPost) -> int:
        """Returns the time in milliseconds when the post was indexed."""
        return self._origin_ms(post.author) + post.number * self._step_ms

    def rkey(self, post: SandboxPost) -> str:
        return tid(self.time_ms(post) * 1000 + 7, post.author)

    def uri(self, post: SandboxPost) -> str:
        return f"at://{self.network.did(post.author)}/app.bsky.feed.post/{self.rkey(post)}"

    def post_of_rkey(self, author: int, rkey: str) -> SandboxPost | None:
        micros = tid_micros(rkey)
        if micros is None:
            return None
        number = (micros // 1000 - self._origin_ms(author)) // self._step_ms
        post = SandboxPost(author, number)
        return post if self.exists(post) and self.rkey(post) == rkey else None

    def post_of_uri(self, uri: str) -> SandboxPost | None:
        """Returns the post with an at-uri that holds a DID, or None."""
        parts = uri.split("/")
        if len(parts) != 5 or parts[0] != "at:" or parts[3] != "app.bsky.feed.post":
            return None
        author = self.network.index_of_did(parts[2])
        return None if author is None else self.post_of_rkey(author, parts[4])

    def pinned(self, index: int) -> SandboxPost | None:
        return SandboxPost(index, 3) if index % 4 == 0 and self.count(index) > 3 else None

    # Threads

    def parent(self, post: SandboxPost) -> SandboxPost | None:
        """Returns the post that this one answers.

        There are no cycles, because a parent has a smaller number or is the big root, which answers nothing.
        """
        author, number = post
        rest = number % 6
        if author == 0 and (number == DEEP_ROOT.number or number == BIG_ROOT.number):
            return None
        if author == 0 and DEEP_ROOT.number < number <= DEEP_ROOT.number + DEEP_REPLIES:
            found = SandboxPost(0, number - 1)
        elif number == 1 and author in _BIG_AUTHORS:
            found = BIG_ROOT
        elif number == 3 and author > 0 and self.network.kind(author - 1) == "blocker":
            found = SandboxPost(author - 1, 0)
        elif rest == 2:
            found = SandboxPost(self._ask(author), number - (2 if number // 6 % 3 == 0 else 3))
        elif rest == 4:
            found = SandboxPost(self._answer(author), number - 2)
        elif rest == 5:
            found = SandboxPost(author, number - 1)
        else:
            return None
        return found if self.exists(found) else None

    def children(self, post: SandboxPost) -> list[SandboxPost]:
        """Returns all direct answers, newest first, including those that the AppView hides."""
        found = [
            child for child in set(self._maybe_children(post)) if self.exists(child) and self.parent(child) == post
        ]
        return sorted(found, key=lambda child: (self.time_ms(child), child), reverse=True)

    def _maybe_children(self, post: SandboxPost) -> Iterator[SandboxPost]:
        author, number = post
        yield SandboxPost(author, number + 1)
        yield SandboxPost(self._ask.inverse(author), number + 2)
        yield SandboxPost(self._ask.inverse(author), number + 3)
        yield SandboxPost(self._answer.inverse(author), number + 2)
        yield SandboxPost(author + 1, 3)
        if post == BIG_ROOT:
            for index in range(_BIG_AUTHORS.start, min(_BIG_AUTHORS.stop, self.network.size)):
                yield SandboxPost(index, 1)

    def root(self, post: SandboxPost) -> SandboxPost:
        while (parent := self.parent(post)) is not None:
            post = parent
        return post

    def shown_under(self, child: SandboxPost, parent: SandboxPost) -> bool:
        """Returns True if the AppView shows an answer below its parent: a visible author, and no blocks."""
        network = self.network
        if network.hidden(child.author) or network.blocked_pair(child.author, parent.author):
            return False
        return not network.blocked_pair(child.author, self.root(parent).author)

    # Feeds: an account reposts after every six posts

    def repost_count(self, index: int) -> int:
        return self.count(index) // 6

    def feed_length(self, index: int) -> int:
        return self.count(index) + self.repost_count(index)

    def feed_item(self, index: int, position: int) -> SandboxPost | SandboxRepost:
        """Returns the item at a position of the author's feed, newest first."""
        block, place = divmod(self.feed_length(index) - 1 - position, 7)
        return SandboxRepost(index, block) if place == 6 else SandboxPost(index, block * 6 + place)

    def repost_subject(self, repost: SandboxRepost) -> SandboxPost | None:
        index, number = repost
        author = self._repost[number](index) if number < _REPOSTS else index
        count = self.count(author)
        return SandboxPost(author, mix(index * 64 + number, 21) % count) if count else None

    def repost_ms(self, repost: SandboxRepost) -> int:
        return self.time_ms(SandboxPost(repost.by, repost.number * 6 + 5)) + 30 * 60_000

    def repost_record(self, repost: SandboxRepost) -> Record | None:
        subject = self.repost_subject(repost)
        if subject is None:
            return None
        return {
            "$type": "app.bsky.feed.repost",
            "subject": self.strong_ref(subject),
            "createdAt": timestamp(self.repost_ms(repost)),
        }

    def repost_rkey(self, repost: SandboxRepost) -> str:
        return tid(self.repost_ms(repost) * 1000 + 5, repost.by)

    def reposts_of(self, post: SandboxPost) -> list[SandboxRepost]:
        """Returns the reposts of a post, at most one for each account, including hidden accounts."""
        found: dict[int, SandboxRepost] = {}
        for number, permutation in enumerate(self._repost):
            by = permutation.inverse(post.author)
            repost = SandboxRepost(by, number)
            if number < self.repost_count(by) and self.repost_subject(repost) == post:
                found[by] = repost
        for number in range(_REPOSTS, self.repost_count(post.author)):
            repost = SandboxRepost(post.author, number)
            if self.repost_subject(repost) == post:
                found[post.author] = repost
        return list(found.values())

    # Likes

    def like_subject(self, index: int, slot: int) -> SandboxPost | None:
        """Returns the post that an account likes: the popular post in slot 0, any post in the others."""
        if slot == 0:
            return POPULAR if self.likes_popular(index) else None
        if slot > self.network.number(index, 31) % (_LIKES + 1) or self.network.kind(index) == "empty":
            return None
        author = self._like[slot - 1](index)
        count = self.count(author)
        subject = SandboxPost(author, mix(index * 8 + slot, 41) % count) if count else None
        return None if subject == POPULAR else subject

    def likes_popular(self, index: int) -> bool:
        return index != 0 and index % 13 != 4 and self.mean > 0 and self.network.kind(index) != "empty"

    def like_ms(self, index: int, slot: int) -> int:
        return self._origin_ms(index) + 200 * DAY_MS + slot * 3_600_000

    def like_rkey(self, index: int, slot: int) -> str:
        return tid(self.like_ms(index, slot) * 1000 + 9, index)

    def like_record(self, index: int, slot: int) -> Record | None:
        subject = self.like_subject(index, slot)
        if subject is None:
            return None
        return {
            "$type": "app.bsky.feed.like",
            "subject": self.strong_ref(subject),
            "createdAt": timestamp(self.like_ms(index, slot)),
        }

    def likers(self, post: SandboxPost) -> dict[int, int]:
        """Maps each liking account to its slot. Empty for the popular post: see `likes_popular`."""
        found: dict[int, int] = {}
        if post == POPULAR:
            return found
        for slot, permutation in enumerate(self._like, start=1):
            index = permutation.inverse(post.author)
            if self.like_subject(index, slot) == post:
                found[index] = slot
        return found

    def like_count(self, post: SandboxPost) -> int:
        return self._popular_likes if post == POPULAR else len(self.likers(post))

    def repost_total(self, post: SandboxPost) -> int:
        return len(self.reposts_of(post))

    @cached_property
    def _popular_likes(self) -> int:
        return self.network.count_except(13, 4) if self.mean else 0

    # Records

    def strong_ref(self, post: SandboxPost) -> Record:
        return {"cid": self.cid(post), "uri": self.uri(post)}

    def quoted(self, post: SandboxPost) -> SandboxPost | None:
        """Returns the post that this one quotes."""
        if post.number % 24 not in (11, 15) or self._is_bare(post):
            return None
        author = self._quote(post.author)
        target = SandboxPost(author, (post.number * 3 + 1) % post.number)
        return target if self.exists(target) else None

    def quote_slot(self, post: SandboxPost) -> str | None:
        """Returns the slot of a post with an unusual quote (see `_QUOTE_SLOTS`), or None."""
        if post.number % 24 != 17 or self._is_bare(post):
            return None
        return _QUOTE_SLOTS[(post.number // 24 + post.author) % len(_QUOTE_SLOTS)]

    def slot_target(self, post: SandboxPost, slot: str) -> SandboxPost:
        """Returns the post for the slots missing, blocked, detached and hidden. It may not exist."""
        partner = self.network.partner(post.author)
        if slot == "blocked" and partner is not None:
            return SandboxPost(partner, 0)
        if slot == "hidden":
            return SandboxPost(2 + post.number // 24 % 4, 0)
        if slot == "detached":
            return SandboxPost(0, 6)
        return SandboxPost(post.author, 1_000_000)

    def labelled(self, post: SandboxPost) -> bool:
        return post.number % 33 == 8

    def self_label(self, post: SandboxPost) -> str | None:
        return "sexual" if post.number % 29 == 5 else None

    def _is_bare(self, post: SandboxPost) -> bool:
        return post == BIG_ROOT

    def _origin_ms(self, author: int) -> int:
        return START_MS + self.network.number(author, 13) % (400 * DAY_MS)

    def _cid(self, post: SandboxPost) -> str:
        chain = [post]
        while (parent := self.parent(chain[-1])) is not None:
            chain.append(parent)
        for ancestor in reversed(chain[1:]):
            self.cid(ancestor)  # from the root down, so that a deep thread needs no deep recursion
        return record_cid(self.record(post))

    def _record(self, post: SandboxPost) -> Record:
        text, facets = self._text(post)
        record: Record = {"text": text, "$type": "app.bsky.feed.post"}
        number = post.number
        if number % 25 == 3:
            record["tags"] = ["outoftext", "hidden tag"]
        embed = None if self._is_bare(post) else self._embed(post)
        if embed is not None:
            record["embed"] = embed
        if number % 8 != 7:
            language = SENTENCES[self._sentence(post)][0]
            record["langs"] = [language, "en"] if number % 11 == 5 and language != "en" else [language]
        if facets:
            record["facets"] = facets
        parent = self.parent(post)
        if parent is not None:
            record["reply"] = {"root": self.strong_ref(self.root(parent)), "parent": self.strong_ref(parent)}
        label = self.self_label(post)
        if label is not None:
            record["labels"] = {"$type": "com.atproto.label.defs#selfLabels", "values": [{"val": label}]}
        record["createdAt"] = self.created_at(post)
        return record

    def created_at(self, post: SandboxPost) -> str:
        """Returns the time that the author's program wrote, including ties, absurd years and several spellings."""
        number = post.number
        if number == 0 and post.author % 7 == 0:
            return "1999-12-31T23:59:59.000Z"
        if number % 40 == 9:
            return "2099-01-01T00:00:00.000Z"
        moment = timestamp(self.time_ms(post if number % 10 != 4 else SandboxPost(post.author, number - 1)))
        if number % 16 == 6:
            return moment[:-1] + "+00:00"
        if number % 16 == 12:
            return moment[:-1] + "123456Z"
        return moment

    def _sentence(self, post: SandboxPost) -> int:
        return (post.author + post.number) % len(SENTENCES)

    def _text(self, post: SandboxPost) -> tuple[str, list[Record]]:
        author, number = post
        if number % 24 == 13 and author % 3 == 0:
            return "", []
        text = f"{SENTENCES[self._sentence(post)][1]} [{author}/{number}]"
        facets: list[Record] = []

        def add(piece: str, feature: Record) -> None:
            nonlocal text
            start = len(text.encode()) + 1
            text += " " + piece
            facets.append(
                {"index": {"byteEnd": start + len(piece.encode()), "byteStart": start}, "features": [feature]}
            )

        if number % 4 == 1:
            other = (author + number * 7 + 1) % self.network.size
            text += " 👋🏽" if number % 8 == 1 else ""
            feature = {"did": self.network.did(other), "$type": "app.bsky.richtext.facet#mention"}
            add("@" + self.network.handle(other), feature)
        if number % 3 == 0:
            tag = TAGS[(author + number) % len(TAGS)]
            add("#" + tag, {"tag": tag, "$type": "app.bsky.richtext.facet#tag"})
        if number % 5 == 2:
            text += " 👨‍👩‍👧"
            link = f"https://example.com/p/{author}/{number}?ü=1&x=%20#frag"
            add(f"example.com/p/{author}…", {"uri": link, "$type": "app.bsky.richtext.facet#link"})
        if number % 12 == 10:
            facets += self._bad_facets(text)
        return text, facets

    def _bad_facets(self, text: str) -> list[Record]:
        """Returns facets that a reader must drop: out of range, reversed, overlapping, or splitting a character."""
        size = len(text.encode())
        middle = next((n for n, byte in enumerate(text.encode()) if byte & 0xC0 == 0x80), 1)
        ranges = ((size - 3, size + 40), (9, 4), (0, 5), (3, 8), (middle, middle + 6))
        return [
            {
                "index": {"byteEnd": end, "byteStart": start},
                "features": [{"tag": f"bad{number}", "$type": "app.bsky.richtext.facet#tag"}],
            }
            for number, (start, end) in enumerate(ranges)
        ]

    # Embeds

    def _embed(self, post: SandboxPost) -> Record | None:
        kind = post.number % 24
        if kind in (1, 13):
            return self._images(post)
        if kind == 3:
            return self._external(post, thumb=True)
        if kind == 7:
            return {
                "alt": "a video",
                "$type": "app.bsky.embed.video",
                "video": _blob(images.video_cid(), len(images.VIDEO), "video/mp4"),
                "aspectRatio": {"width": 16, "height": 9},
            }
        if kind == 9:
            items = [dict(part, **{"$type": "app.bsky.embed.gallery#image"}) for part in self._pictures(post, 6)]
            return {"$type": "app.bsky.embed.gallery", "items": items}
        if kind == 19:
            return {"$type": "com.example.embed.poll", "question": "Which?", "options": ["this", "that"]}
        if kind == 17:
            return {"$type": "app.bsky.embed.record", "record": self._slot_ref(post)}
        target = self.quoted(post)
        if target is None:
            return self._external(post, thumb=False) if kind in (11, 15, 21) else None
        quote = {"$type": "app.bsky.embed.record", "record": self.strong_ref(target)}
        if kind == 15:
            return {"$type": "app.bsky.embed.recordWithMedia", "record": quote, "media": self._images(post)}
        return quote

    def _slot_ref(self, post: SandboxPost) -> Record:
        slot = self.quote_slot(post) or "missing"
        if slot in ("missing", "blocked", "detached", "hidden"):
            target = self.slot_target(post, slot)
            if self.exists(target):
                return self.strong_ref(target)
            return {"cid": record_cid({"missing": post.number}), "uri": self.uri(target)}
        return {"cid": record_cid({"slot": slot}), "uri": self.slot_uri(slot)}

    def slot_uri(self, slot: str) -> str:
        """Returns the at-uri of a quoted object other than a post. Account 0 owns all such objects."""
        owner = self.network.did(0)
        if slot == "labeler":
            return f"at://{owner}/app.bsky.labeler.service/self"
        if slot == "generator":
            return f"at://{owner}/app.bsky.feed.generator/tides"
        collection = "app.bsky.graph.list" if slot == "list" else "app.bsky.graph.starterpack"
        return f"at://{owner}/{collection}/{self.extra_rkey(0, slot)}"

    def extra_rkey(self, index: int, slot: str) -> str:
        return tid((self._origin_ms(index) + (1 if slot == "list" else 2) * 1000) * 1000 + 2, index)

    def _pictures(self, post: SandboxPost, amount: int) -> list[Record]:
        found = []
        for place in range(amount):
            drawn = images.picture("picture", (post.author * 7 + post.number + place) % images.POOL["picture"])
            found.append(
                {
                    "alt": "" if place % 2 else f'Hills {post.number}: a "picture" with ünïcödé 🖼️\nand a second line',
                    "image": _blob(drawn.cid, len(drawn.content), drawn.mime),
                    "aspectRatio": {"width": drawn.width, "height": drawn.height},
                }
            )
        return found

    def _images(self, post: SandboxPost) -> Record:
        pictures = self._pictures(post, 1 + post.author % 4)
        if post.number % 48 == 13:
            for part in pictures:
                del part["aspectRatio"]
        return {"$type": "app.bsky.embed.images", "images": pictures}

    def _external(self, post: SandboxPost, *, thumb: bool) -> Record:
        external: Record = {
            "uri": f"https://example.com/article/{post.author}/{post.number}?utm=1&q=a%20b",
            "title": f"Article {post.number} — “quoted” & more",
            "description": "" if post.number % 2 else "A short description",
        }
        if thumb:
            drawn = images.picture("picture", post.number % images.POOL["picture"])
            external["thumb"] = _blob(drawn.cid, len(drawn.content), drawn.mime)
        return {"$type": "app.bsky.embed.external", "external": external}


def _blob(cid: str, size: int, mime: str) -> Record:
    return {"ref": {"$link": cid}, "size": size, "$type": "blob", "mimeType": mime}
