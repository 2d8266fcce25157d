"""The accounts of the generated network and their follow graph.

Nothing is stored: every value is computed from the seed and the account's number, in both directions. So a network of a
million accounts starts at once.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from math import gcd
from typing import Literal

from harvester.sandbox.ids import DidCodec, mix
from harvester.sandbox.words import NAMES

Kind = Literal[
    "normal", "hub", "follows_all", "deactivated", "takendown", "pds_takendown", "deleted", "private", "no_profile",
    "handle_invalid", "blocker", "blocked", "labelled", "empty", "intents_refuse", "intents_allow", "renamed",
]  # fmt: skip

SPECIAL: tuple[Kind, ...] = (
    "hub", "follows_all", "deactivated", "takendown", "pds_takendown", "deleted", "private", "no_profile",
    "handle_invalid", "blocker", "blocked", "labelled", "empty", "intents_refuse", "intents_allow", "renamed",
)  # fmt: skip
"""The kinds of the accounts 0, 1, 2 and so on, the same in every network."""

SPRINKLED: tuple[Kind, ...] = (
    "deactivated", "private", "no_profile", "takendown", "handle_invalid", "blocker", "labelled", "deleted",
    "empty", "intents_refuse", "pds_takendown", "intents_allow", "renamed",
)  # fmt: skip
"""Account i, from 100 on, with i % 97 == 13 is of the kind SPRINKLED[i // 97 % 13]. A blocker blocks account i + 1."""

HIDDEN: frozenset[Kind] = frozenset({"deactivated", "takendown", "pds_takendown", "deleted"})
"""Kinds that the AppView neither lists nor shows."""

REFUSING: frozenset[Kind] = frozenset({"private", "intents_refuse"})
"""Kinds that the API shows, and whose owners do not want to be harvested."""

FOLLOWS_ALL_LIMIT = 5_000
"""Maximum size of a network whose account 1 follows everybody."""

_DEAD_ENDS: frozenset[Kind] = HIDDEN | REFUSING | {"empty"}
_DOMAIN = ".sandbox.test"


def special() -> dict[str, int]:
    """Maps each special kind to the number of its account."""
    return {kind: index for index, kind in enumerate(SPECIAL)}


class Permutation:
    """A reordering of 0..size-1 that can be computed in both directions."""

    def __init__(self, size: int, salt: int) -> None:
        self._size = size
        factor = mix(salt, 1) % size or 1
        while gcd(factor, size) != 1:
            factor = factor % size + 1
        self._factor, self._shift = factor, mix(salt, 2) % size
        self._inverse = pow(factor, -1, size) if size > 1 else 0

    def __call__(self, index: int) -> int:
        return (index * self._factor + self._shift) % self._size

    def inverse(self, image: int) -> int:
        return (image - self._shift) * self._inverse % self._size


class Countdown(Sequence[int]):
    """The account numbers in descending order, without a list in memory."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, position: int | slice) -> int | list[int]:  # type: ignore[override]
        if isinstance(position, slice):
            return [self._size - 1 - place for place in range(*position.indices(self._size))]
        return self._size - 1 - position

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._size - 1, -1, -1))


class Network:
    """The accounts 0..size-1: identities, kinds, and the follow graph."""

    permutations = 12
    """Number of permutations. An account follows its images under the first few."""

    heavy_follows = 150
    """Number of extra follows of account i with i % 64 == 5, so that its list has several pages."""

    def __init__(self, size: int, seed: int = 1) -> None:
        if size < 2:
            raise ValueError("a network needs two accounts")
        self.size = size
        self.seed = seed
        self._dids = DidCodec(seed)
        self._follow_permutations = [self.permutation(100 + k) for k in range(self.permutations)]
        self._range_permutation = self.permutation(99)
        self._range_length = min(self.heavy_follows, size // 8)
        self._name_numbers = {name: number for number, (name, _) in enumerate(NAMES)}
        self.did = lru_cache(200_000)(self._dids.encode)

    def permutation(self, salt: int) -> Permutation:
        return Permutation(self.size, mix(self.seed, salt))

    def number(self, index: int, salt: int) -> int:
        """Returns a random number that is fixed for the account."""
        return mix(index, self.seed * 1009 + salt)

    # Identity

    def index_of_did(self, did: str) -> int | None:
        index = self._dids.decode(did)
        return index if index is not None and index < self.size else None

    def handle(self, index: int) -> str:
        """Returns the handle in the account's own DID document."""
        name = NAMES[index % len(NAMES)][0]
        prefix = "new-" if self.kind(index) == "renamed" else ""
        return f"{prefix}{name}-{index // len(NAMES)}{_DOMAIN}"

    def former_handle(self, index: int) -> str:
        return self.handle(index).removeprefix("new-")

    def shown_handle(self, index: int) -> str:
        """Returns the handle that the AppView shows."""
        return "handle.invalid" if self.kind(index) == "handle_invalid" else self.handle(index)

    def index_of_handle(self, handle: str) -> int | None:
        """Returns the account with this handle; None for former, invalid and unknown handles."""
        handle = handle.lower()
        name, _, number = handle.removesuffix(_DOMAIN).removeprefix("new-").rpartition("-")
        if name not in self._name_numbers or not number.isascii() or not number.isdigit() or len(number) > 9:
            return None
        index = int(number) * len(NAMES) + self._name_numbers[name]
        if index >= self.size or self.handle(index) != handle or self.kind(index) in ("handle_invalid", "deleted"):
            return None
        return index

    # Kind

    def kind(self, index: int) -> Kind:
        if index < len(SPECIAL):
            return SPECIAL[index]
        if index >= 100 and index % 97 == 13:
            return SPRINKLED[index // 97 % len(SPRINKLED)]
        return "normal"

    def hidden(self, index: int) -> bool:
        return self.kind(index) in HIDDEN

    def partner(self, index: int) -> int | None:
        """Returns the account on the other side of a block."""
        if self.kind(index) == "blocker" and index + 1 < self.size:
            return index + 1
        if index > 0 and self.kind(index - 1) == "blocker":
            return index - 1
        return None

    def blocked_pair(self, one: int, other: int) -> bool:
        return abs(one - other) == 1 and self.partner(one) == other

    # Graph

    def follows(self, index: int) -> Sequence[int]:
        """Returns all accounts that an account follows, newest first, like its repository."""
        if self.kind(index) == "empty":
            return []
        if index == 1 and self.size <= FOLLOWS_ALL_LIMIT:
            return [other for other in Countdown(self.size) if other != 1]
        found = dict.fromkeys(self._tree_follows(index))
        partner = self.partner(index)
        if partner is not None:
            found[partner] = None
        for permutation in self._follow_permutations[: self._degree(index)]:
            found[permutation(index)] = None
        if index % 64 == 5:
            start = self._range_permutation(index)
            found.update(dict.fromkeys((start + step) % self.size for step in range(self._range_length)))
        found.pop(index, None)
        found.pop(0, None)
        if self.follows_hub(index):
            found[0] = None
        return list(found)

    def followers(self, index: int) -> Sequence[int]:
        """Returns all followers of an account. For the hub it includes accounts without a follow: see `follows_hub`."""
        if index == 0:
            return Countdown(self.size)
        found = dict.fromkeys(self._tree_followers(index))
        partner = self.partner(index)
        if partner is not None:
            found[partner] = None
        if self.size <= FOLLOWS_ALL_LIMIT:
            found[1] = None
        for number, permutation in enumerate(self._follow_permutations):
            other = permutation.inverse(index)
            if self._degree(other) > number:
                found[other] = None
        for step in range(self._range_length):
            other = self._range_permutation.inverse((index - step) % self.size)
            if other % 64 == 5:
                found[other] = None
        found.pop(index, None)
        return [other for other in found if self.kind(other) != "empty"]

    def follows_hub(self, index: int) -> bool:
        """Returns True if the account follows account 0, which nearly all accounts do."""
        return index != 0 and index % 17 != 3 and self.kind(index) != "empty"

    def follower_count(self, index: int) -> int:
        """Returns the profile's number of followers, which includes hidden accounts."""
        return self._hub_followers if index == 0 else len(self.followers(index))

    def listed(self, owner: int, other: int) -> bool:
        """Returns True if lists of `owner` show `other` to callers without login."""
        return not self.hidden(other) and not self.blocked_pair(owner, other)

    def visible_follows(self, index: int) -> list[int]:
        return [other for other in self.follows(index) if self.listed(index, other)]

    def visible_followers(self, index: int) -> list[int]:
        found = self.followers(index)
        if index == 0:
            return [other for other in found if self.follows_hub(other) and self.listed(0, other)]
        return [other for other in found if self.listed(index, other)]

    def count_except(self, modulus: int, rest: int) -> int:
        """Counts the accounts, without the hub, empty accounts, and those with index % modulus == rest."""
        empties = sum(1 for index in self._maybe_empty() if self.kind(index) == "empty" and index % modulus != rest)
        return self.size - 1 - len(range(rest, self.size, modulus)) - empties

    @cached_property
    def _hub_followers(self) -> int:
        return self.count_except(17, 3)

    def _maybe_empty(self) -> Iterator[int]:
        yield from range(min(len(SPECIAL), self.size))
        yield from range(110, self.size, 97)

    def _degree(self, index: int) -> int:
        return self.number(index, 5) % (self.permutations + 1)

    def _tree_follows(self, index: int) -> Iterator[int]:
        """Yields the account's children in a tree with three branches.

        The tree lets a crawl of follows alone reach everybody. Accounts that a crawl cannot or must not read are dead
        ends: their parent follows their children too.
        """
        for child in range(3 * index + 1, min(3 * index + 4, self.size)):
            yield child
            if self.kind(child) in _DEAD_ENDS and self.kind(index) not in _DEAD_ENDS:
                yield from self._adopted(child)

    def _adopted(self, index: int) -> Iterator[int]:
        for child in range(3 * index + 1, min(3 * index + 4, self.size)):
            yield child
            if self.kind(child) in _DEAD_ENDS:
                yield from self._adopted(child)

    def _tree_followers(self, index: int) -> Iterator[int]:
        parent = (index - 1) // 3
        yield parent
        while self.kind(parent) in _DEAD_ENDS:
            parent = (parent - 1) // 3
            if self.kind(parent) not in _DEAD_ENDS:
                yield parent
