"""Harvests hashtags and trends from several sources."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from msgspec.structs import replace
from scrapy import Request

from harvester.exceptions import HarvesterError, UsageError
from harvester.items import Found, ItemResult, Provenance, Record
from harvester.items.trend import WORLD
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome
from harvester.parsers.hashtags.staged import read_staged
from harvester.sites import load_sites
from harvester.spiders.hashtags.arguments import SOURCES, HashtagsArguments, instance_of, problem_of_tag, region_of
from harvester.spiders.hashtags.bluesky import Bluesky
from harvester.spiders.hashtags.google import Google
from harvester.spiders.hashtags.instagram import Instagram
from harvester.spiders.hashtags.keys import NO_KEY
from harvester.spiders.hashtags.mastodon import Mastodon, origin_of_instance
from harvester.spiders.hashtags.requests import CHART, TAG, WantedTag, found
from harvester.spiders.hashtags.tiktok import PERIODS, Tiktok
from harvester.spiders.hashtags.youtube import Youtube


class HashtagsSpider(Google, Mastodon, Bluesky, Tiktok, Instagram, Youtube):
    """Harvests hashtags and trends.

    Domain: trends.google.com, Mastodon (any instance), Bluesky, ads.tiktok.com, graph.facebook.com, www.googleapis.com.
    Caveats: sources count over different periods, and round; their definitions of a trend differ; some need a key and
    have small quotas. Arguments: see `harvester spiders show hashtags`.
    """

    name = "hashtags"
    ITEM_KINDS = (TAG, CHART)

    @classmethod
    def check_item(cls, found: Found) -> Found:
        """Checks and normalises a key, in the form of `WantedTag.key`."""
        wanted, tag = WantedTag.of(found.key), found.key.partition("#")[2]
        if wanted.source not in SOURCES or (found.kind == TAG) is not ("#" in found.key):
            like = "mastodon mastodon.social #cats" if found.kind == TAG else "google US"
            raise UsageError(f"{found.key!r} is no key of a {found.kind}, like: {like}")
        if found.kind == TAG and (reason := problem_of_tag(tag)):
            raise UsageError(f"{found.key!r} names no hashtag: {reason}")
        try:
            place = check_place(wanted)
        except ValueError as error:
            raise UsageError(f"{found.key!r}: {error}") from None
        return replace(found, key=wanted._replace(place=place).key, input={TAG: tag.strip()} if tag else {}, depth=0)

    @classmethod
    def site_of(cls, found: Found) -> str:
        wanted = WantedTag.of(found.key)
        return load_sites().of(origin_of_instance(wanted.place)).name if wanted.source == "mastodon" else ""

    @property
    def keeping_all(self) -> list[str]:
        """Jobs of this run that also store posts of people who opt out."""
        return [job for job, known in self._arguments.items() if not getattr(known, "honour_opt_outs", True)]

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        return read_staged(kind, key, raw, provenance)

    async def before(self) -> None:
        """Raises UsageError when the arguments name no tags or trends, a key is missing, or a file cannot be used."""
        await self.sign_in()
        if self.only:
            return
        asked_for = self.arguments
        if missing := next(
            (NO_KEY[each] for each in asked_for.sources if each in NO_KEY and each not in self.keys), ""
        ):
            raise UsageError(f"{missing}.")
        if not sum(1 for _ in self.items_of_arguments()) and not self.is_counting:
            raise UsageError(
                "Nothing is asked for. Give hashtags: -a tags=cats,@FILE, with a source that has them; or ask for what"
                " is popular, too: -a collect=trends,tags."
            )

    @property
    def is_counting(self) -> bool:
        """True if tags of harvested posts are to be counted."""
        return not self.only and "counts" in self.arguments.collect

    async def start(self) -> AsyncIterator[Any]:
        if self.is_counting:
            try:
                async for batch in self.counts():
                    yield batch
            except HarvesterError as error:
                raise self.stop_for(error) from None
        async for output in super().start():
            yield output

    @classmethod
    def first_items(cls, arguments: HashtagsArguments) -> Iterator[Found]:
        tags = list(arguments.read_tags()) if "tags" in arguments.collect else []
        for source in arguments.sources:
            if "trends" in arguments.collect:
                yield from (found(source, place) for place in charts_of(source, arguments))
            for place in places_of_tags(source, arguments):
                yield from (found(source, place, tag) for tag in tags)

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        for item in items:
            wanted = WantedTag.of(item.key)
            match wanted.source:
                case service if service in NO_KEY and service not in self.keys:
                    yield ItemResult(item.id, "failed", Outcome.AUTH_REQUIRED, NO_KEY[service])
                case "google":
                    yield from self.google_requests(wanted)
                case "mastodon":
                    yield from self.mastodon_requests(item, wanted)
                case "bluesky":
                    yield from self.bluesky_requests(item, wanted)
                case "tiktok":
                    yield from self.tiktok_requests(wanted)
                case "instagram":
                    yield from self.instagram_requests(item, wanted)
                case "youtube":
                    yield from self.youtube_requests(item, wanted)


def charts_of(source: str, asked_for: HashtagsArguments) -> Sequence[str]:
    """Returns the places whose trends a source has."""
    match source:
        case "google" | "youtube":
            return asked_for.regions
        case "tiktok":
            return [f"{region} {asked_for.period}" for region in asked_for.regions]
        case "mastodon":
            return asked_for.instances
        case "bluesky":
            return [WORLD]
    return ()


def places_of_tags(source: str, asked_for: HashtagsArguments) -> Sequence[str]:
    """Returns the places where a source has single tags: an empty one if the source has no places."""
    if source == "mastodon":
        return asked_for.instances
    return [""] if source in ("bluesky", "instagram", "youtube") else ()


def check_place(wanted: WantedTag) -> str:
    """Returns the normalised place. Raises ValueError when the source has no such place."""
    place, days = (wanted.place.partition(" ")[::2]) if wanted.source == "tiktok" else (wanted.place, "")
    match wanted.source, bool(wanted.tag):
        case "mastodon", _:
            return instance_of(place)
        case "google" | "tiktok", True:
            raise ValueError(f"{wanted.source} has what is popular, and no single hashtags")
        case "instagram", False:
            raise ValueError("instagram has single hashtags, and nothing that is popular")
        case _, True:
            if place:
                raise ValueError(f"{wanted.source} has hashtags of all the world")
            return ""
        case "bluesky", _:
            return WORLD
        case "tiktok", _:
            if days not in PERIODS:
                raise ValueError("give a country and 7, 30 or 120 days, like: tiktok US 7")
            return f"{region_of(place)} {days}"
    return region_of(place)
