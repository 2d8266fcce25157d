"""The arguments of the spider `hashtags`."""

import os
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from harvester.config import load_config
from harvester.items import Found
from harvester.items.trend import is_of_tag, normal_tag
from harvester.jobs.inputs import digest_of, items_of_file
from harvester.spiders.base import SpiderArguments, YesOrNo

Source = Literal["google", "mastodon", "bluesky", "tiktok", "instagram", "youtube"]
SOURCES: tuple[Source, ...] = ("google", "mastodon", "bluesky", "tiktok", "instagram", "youtube")
Part = Literal["trends", "tags", "counts"]
TAG = "tag"
"""Kind of the items in a file of tags; also the name of the column."""
MOST_LETTERS = 100
"""Maximum number of letters in a tag: more than any source allows."""
_is_region = re.compile(r"[A-Z]{2}").fullmatch
_is_host = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z0-9_-]+(?::[0-9]{1,5})?").fullmatch


def problem_of_tag(text: str) -> str:
    """Returns why a text is not a hashtag; empty when it is."""
    normal = normal_tag(text)
    if 0 < len(normal) <= MOST_LETTERS and all(map(is_of_tag, normal)):
        return ""
    return f"a hashtag has letters, digits and _, and no more than {MOST_LETTERS}"


def _listed(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class HashtagsArguments(SpiderArguments):
    """Arguments of the spider `hashtags`."""

    sources: Annotated[tuple[Source, ...], BeforeValidator(_listed)] = Field(
        ("google", "mastodon"),
        description="who is asked: any of google, mastodon, bluesky, tiktok, instagram, youtube",
    )
    tags: str = Field(
        "",
        description=(
            "hashtags, with or without #, comma-separated; @FILE among them: CSV with a header, JSON lines, or one a "
            "line"
        ),
    )
    regions: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        ("US",), description="whose trends: codes of countries, comma-separated, where a source has trends by country"
    )
    instances: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        default_factory=lambda: tuple(_listed(load_config().mastodon_instances)),
        validate_default=True,
        description="servers of Mastodon, or of another program with its API: names of hosts",
    )
    period: Annotated[Literal["7", "30", "120"], BeforeValidator(str)] = Field(
        "7", description="over how many days TikTok counts"
    )
    collect: Annotated[tuple[Part, ...], BeforeValidator(_listed)] = Field(
        ("trends", "tags"),
        description=(
            "any of trends, tags, counts: what is popular; what there is with the given tags; in how many posts of "
            "Bluesky that were harvested they stand, by day"
        ),
    )
    max_posts: int = Field(200, ge=1, le=10_000, description="how many posts of a tag are looked at, the latest first")
    honour_opt_outs: YesOrNo = Field(
        True, description="whether posts of authors who do not want to be found or collected are left out: yes or no"
    )

    _digest: str = PrivateAttr("")

    @field_validator("sources", "collect")
    @classmethod
    def _some(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("name at least one")
        return tuple(dict.fromkeys(value))

    @field_validator("regions")
    @classmethod
    def _are_codes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(region_of, value)))

    @field_validator("instances")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(instance_of(each) for each in value))

    @model_validator(mode="after")
    def _tags_are_some(self) -> "HashtagsArguments":
        for tag in self._inline:
            if reason := problem_of_tag(tag):
                raise ValueError(f"tags: {tag[:80]!r} is none: {reason}")
        return self

    def read_tags(self) -> Iterator[str]:
        """Yields the tags as typed, without duplicates. Raises UsageError for an unusable file, with its bad lines."""
        known = set()
        for tag in self._all_tags():
            if (normal := normal_tag(tag)) not in known:
                known.add(normal)
                yield tag.strip().lstrip("#").strip()

    def _all_tags(self) -> Iterator[str]:
        yield from self._inline
        for path in self._files:
            yield from (found.key for found in items_of_file(path, "tags", TAG, "", (TAG, "key"), _problem_of))

    def identity(self) -> dict[str, Any]:
        """Returns the values that identify a harvest: a digest of the content stands for a file."""
        if self._files and not self._digest:
            self._digest = ",".join(map(digest_of, self._files))
        return self.kept() | {"tags": [*map(normal_tag, self._inline), self._digest]}

    @classmethod
    def names_file(cls, name: str, value: str) -> bool:
        """Returns True also when the file follows other tags."""
        return any(super(HashtagsArguments, cls).names_file(name, part) for part in value.split(","))

    def kept(self) -> dict[str, Any]:
        """Leaves out the tags: they are items of the job, and may come from a file that other machines do not have."""
        return self.model_dump(mode="json", exclude={"tags"})

    @property
    def _given(self) -> list[str]:
        return list(filter(None, map(str.strip, self.tags.split(","))))

    @property
    def _inline(self) -> list[str]:
        return [each for each in self._given if not each.startswith("@")]

    @property
    def _files(self) -> list[str]:
        return [os.path.expanduser(each[1:]) for each in self._given if each.startswith("@")]


def _problem_of(found: Found) -> str:
    return problem_of_tag(found.key)


def instance_of(text: str) -> str:
    """Normalises the host of an instance; keeps http:// if given. Raises ValueError."""
    plain = text.strip().lower().removeprefix("https://").rstrip("/")
    host = plain.removeprefix("http://")
    if not _is_host(host) or not urlsplit(f"//{host}").hostname:
        raise ValueError(f"{text!r} is no host of a server, like mastodon.social")
    return plain


def region_of(text: str) -> str:
    """Normalises the code of a country. Raises ValueError."""
    code = text.strip().upper()
    if not _is_region(code):
        raise ValueError(f"{text!r} is no code of a country, like US or DE")
    return code
