"""The arguments of the spider `bluesky`."""

import re
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from harvester.config import load_config
from harvester.recheck import read_policy
from harvester.spiders.base import SpiderArguments, YesOrNo
from harvester.spiders.seeds import Seeds
from harvester.validation import MOST_NUMBER, read_by

Part = Literal["graph", "profiles", "posts", "threads", "lists"]
PARTS: tuple[Part, ...] = ("graph", "profiles", "posts", "threads", "lists")


def _listed(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _day(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = datetime.combine(date.fromisoformat(value), time(), UTC)
        except ValueError:
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                raise ValueError("a date like 2025-01-31, or a time like 2025-01-31T12:00:00Z") from None
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return value


def _unless_none(value: Any) -> Any:
    return None if value in ("none", "") else value


_server = re.compile(
    r"(?P<scheme>https?://)?(?P<host>([a-z0-9_-]+\.)*[a-z0-9_-]+(:[0-9]{1,5})?|\[[0-9a-f:]+\](:[0-9]{1,5})?)/?",
    re.IGNORECASE,
)


class BlueskyArguments(SpiderArguments):
    """Arguments of the spider `bluesky`."""

    seeds: str = Field(
        "",
        description=(
            "accounts to begin with: handles, DIDs or profile addresses, comma-separated; @FILE; - for stdin; "
            "none: those of the start list"
        ),
    )
    depth: int = Field(
        1, ge=0, le=10, description="how many steps from the seeds accounts are harvested; 0: the seeds alone"
    )
    direction: Literal["followers", "follows", "both"] = Field(
        "follows", description="which lists are read, and followed to further accounts"
    )
    max_accounts: Annotated[int | None, BeforeValidator(_unless_none)] = Field(
        None, ge=1, le=MOST_NUMBER, description="the most accounts to harvest; none: no limit"
    )
    collect: Annotated[tuple[Part, ...], BeforeValidator(_listed)] = Field(
        ("graph", "profiles", "posts"), description="any of graph, profiles, posts, threads, lists"
    )
    history: Literal["appview", "records", "car"] = Field(
        "appview",
        description="source of posts: the AppView's feed, listRecords of the account's server, or its repository",
    )
    since: Annotated[datetime | None, BeforeValidator(_day), BeforeValidator(_unless_none)] = Field(
        None, description="only posts from then on (date or time, UTC)"
    )
    until: Annotated[datetime | None, BeforeValidator(_day), BeforeValidator(_unless_none)] = Field(
        None, description="only posts before then (date or time, UTC)"
    )
    media: YesOrNo = Field(True, description="whether pictures are fetched: yes or no")
    via: Literal["api", "browser"] = Field(
        "api", description="whether the API is asked, or a browser shows the pages of the web client"
    )
    service: str = Field(
        default_factory=lambda: load_config().bluesky_service, validate_default=True, description="the AppView to ask"
    )
    web: str = Field("https://bsky.app", description="the web client that a browser shows")
    honour_opt_outs: YesOrNo = Field(
        True, description="whether accounts that declared not to want this are left out: yes or no"
    )
    harvest_unknown: YesOrNo = Field(
        False, description="whether accounts are harvested whose servers did not say what they declare: yes or no"
    )
    ask_authors: YesOrNo = Field(
        True, description="whether the authors of replies and quotes are asked what they declare: yes or no"
    )
    recheck: Annotated[Annotated[str, read_by(read_policy)] | None, BeforeValidator(_unless_none)] = Field(
        None, description="when accounts are looked at again, like: every 6h; none: the harvest is finished some time"
    )
    looks_a_day: Annotated[int | None, BeforeValidator(_unless_none)] = Field(
        None, ge=1, le=MOST_NUMBER, description="with recheck, the most looks a day; none: no limit"
    )

    _seeds: Seeds = PrivateAttr()

    @field_validator("seeds")
    @classmethod
    def _usable(cls, value: str) -> str:
        if refusal := Seeds(value).refusal():
            raise ValueError(refusal)
        return value

    @field_validator("collect")
    @classmethod
    def _in_order(cls, value: tuple[Part, ...]) -> tuple[Part, ...]:
        if not value:
            raise ValueError("name at least one")
        return tuple(part for part in PARTS if part in value)

    @field_validator("service", "web")
    @classmethod
    def _origin(cls, value: str, info: ValidationInfo) -> str:
        address = _server.fullmatch(value)
        if not address:
            assert info.field_name
            usual = cls.model_fields[info.field_name].get_default(call_default_factory=True)
            raise ValueError(f"the address of a server, like {usual}")
        return f"{(address['scheme'] or 'https://').lower()}{address['host'].lower()}"

    @model_validator(mode="after")
    def _together(self) -> "BlueskyArguments":
        if self.since and self.until and self.since >= self.until:
            raise ValueError("since must be before until")
        if "threads" in self.collect and "posts" not in self.collect:
            raise ValueError("collect: threads are found through posts; ask for posts too")
        if self.via == "browser" and self.history != "appview":
            raise ValueError(f"history: {self.history} is no page of the web client; it needs via=api")
        if self.via == "browser" and (parts := [part for part in self.collect if part in ("threads", "lists")]):
            raise ValueError(f"collect: {' and '.join(parts)} cannot be read by a browser; they need via=api")
        if self.looks_a_day and not self.recheck:
            raise ValueError("looks_a_day: only with recheck are there looks")
        if self.recheck and self.until:
            raise ValueError("recheck: nothing new comes before until; leave one of them out")
        self._seeds = Seeds(self.seeds)
        return self

    def read_seeds(self) -> Seeds:
        """Returns the seeds, to be iterated."""
        return self._seeds

    def identity(self) -> dict[str, Any]:
        """Returns the values that identify a harvest: a digest of the seeds, and no settings for the route."""
        way = {"via", "web", "recheck", "looks_a_day", "harvest_unknown", "ask_authors"}
        told = self.model_dump(mode="json", exclude=way)
        unusual = {"recheck": bool(self.recheck), "harvest_unknown": self.harvest_unknown}
        unusual |= {"leave_authors": not self.ask_authors}
        return told | {"seeds": self._seeds.digest()} | {name: True for name, is_so in unusual.items() if is_so}

    @property
    def needs_server(self) -> bool:
        """True if posts are read from the servers of accounts."""
        return self.history != "appview" and "posts" in self.collect

    @property
    def asks_authors(self) -> bool:
        """True if the declarations of authors are requested who appear only in others' posts."""
        return self.honour_opt_outs and self.ask_authors

    def from_then_on(self, since: datetime | None) -> Self:
        """Returns a copy for posts since a time. Returns the arguments unchanged if they begin later, or for None."""
        if since is None or (self.since and self.since >= since):
            return self
        return self.model_copy(update={"since": since})

    def kept(self) -> dict[str, Any]:
        """Leaves out the seeds: they are items of the job, and may come from a file that other machines do not have."""
        return self.model_dump(mode="json", exclude={"seeds"})
