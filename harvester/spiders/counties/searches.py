"""The base of spiders of platforms that search for parcels, by their address or their owner."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

from msgspec.structs import replace
from pydantic import Field, model_validator

from harvester.exceptions import UsageError
from harvester.items import Found
from harvester.parsers.counties.addresses import AddressQuery
from harvester.spiders.counties.arguments import PARCEL, PropertyArguments
from harvester.spiders.counties.platform import PlatformSpider

ADDRESS, OWNER = "address", "owner"
"""Kinds of items that a search answers: the key is the text to search for."""
MOST_LETTERS = 200
"""Maximum number of letters to search for."""


class AddressArguments(PropertyArguments):
    """Arguments for an address search. The parcels that it finds are items of the same job."""

    SEARCHES: ClassVar[tuple[str, ...]] = (ADDRESS,)
    address: str = Field("", description="parcels at this address: house number and street, or a street")

    @model_validator(mode="after")
    def _one_search(self) -> Self:
        given = [name for name in ("parcels", "all", *self.SEARCHES) if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"give {' or '.join(given)}, and not both")
        for kind, words in self._searches:
            check_search(kind, words)
        return self

    @property
    def says_what(self) -> bool:
        return super().says_what or bool(self._searches)

    @property
    def _searches(self) -> list[tuple[str, str]]:
        return [(kind, " ".join(getattr(self, kind).split())) for kind in self.SEARCHES if getattr(self, kind)]

    def searches(self) -> Iterator[Found]:
        """Yields the searches as items."""
        yield from (Found(kind, words, depth=0) for kind, words in self._searches)

    def identity(self) -> dict[str, Any]:
        return super().identity() | dict(self._searches)


class SearchArguments(AddressArguments):
    """Arguments for sites that search by owner, too."""

    SEARCHES = (ADDRESS, OWNER)
    owner: str = Field("", description="parcels whose owner's name begins like this, as the site's search finds them")


class SearchingSpider(PlatformSpider):
    """The base of spiders whose platform has a search. The parcels that it finds are items of the same job."""

    Arguments = AddressArguments
    ITEM_KINDS: ClassVar[tuple[str, ...]] = (PARCEL, ADDRESS)
    arguments: AddressArguments

    @classmethod
    def first_items(cls, arguments: Any) -> Iterator[Found]:
        yield from super().first_items(arguments)
        yield from arguments.searches()

    @classmethod
    def check_item(cls, found: Found) -> Found:
        if found.kind in (ADDRESS, OWNER):
            return replace(found, key=check_search(found.kind, found.key))
        return super().check_item(found)


def number_and_street(address: str) -> tuple[str, str]:
    """Splits an address into house number, which may be empty, and street."""
    number, _, street = address.partition(" ")
    return (number, street.strip()) if number.isdecimal() and street.strip() else ("", address)


def check_search(kind: str, words: str) -> str:
    """Returns a search text in the saved form. Raises UsageError when it cannot find anything."""
    words = " ".join(words.split())
    asked = AddressQuery.of(words).asked if kind == ADDRESS else words
    if not any(letter.isalnum() for letter in asked):
        raise UsageError(f"{kind}: {words!r} is nothing that can be looked for")
    if len(words) > MOST_LETTERS:
        raise UsageError(f"{kind}: {words[:40]!r}... is longer than {MOST_LETTERS} letters")
    return words
