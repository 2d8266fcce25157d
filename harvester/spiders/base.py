"""The base of harvester's spiders: typed arguments, an identity for the run, and ends that say why."""

import gc
import hashlib
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Annotated, Any, ClassVar, Self

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator
from pydantic_core import ErrorDetails
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from twisted.python.failure import Failure

from harvester import validation
from harvester.bounded.process import Bounds
from harvester.config import Config, load_config
from harvester.download.reading import reader_of
from harvester.exceptions import FAULT, HarvesterError, UsageError
from harvester.identities.credentials import SpiderAccount
from harvester.items import Provenance, Record
from harvester.items.found import is_text
from harvester.shutdown import CAUSE, EXIT_CODE, end, fault_of, is_ending

logger = logging.getLogger(__name__)

TASTES = {
    "FEED_EXPORT_ENCODING": "utf-8",  # default escapes all but ASCII in JSON
    "COOKIES_ENABLED": False,  # APIs need none; sites with sessions say so in their entries
    "REFERRER_POLICY": "no-referrer",  # default sends one; the address of an API call is nobody's referrer
    "REDIRECT_MAX_TIMES": 5,  # default 20
    "METAREFRESH_ENABLED": False,  # default True; answers are no pages for people
    "DOWNLOAD_TIMEOUT": 60,  # default 180
    "DOWNLOAD_WARNSIZE": 0,  # default 32 MiB; DOWNLOAD_MAXSIZE is an error already
    "URLLENGTH_LIMIT": 0,  # default 2083; 25 at-uris are long
    "MEDIA_ALLOW_REDIRECTS": True,  # default False; CDNs redirect
    "CONCURRENT_ITEMS": 2,  # default 100: tasks started for every response; records travel in batches
    "WARN_ON_GENERATOR_RETURN_VALUE": False,  # default True: reads a callback's source again for every answer
}
"""Scrapy's settings that harvester's spiders want otherwise. Each says why on its line."""
NOT_NEEDED = {
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,  # a chain of pages is not depth
}
"""Scrapy's spider middlewares that harvester's spiders do without."""
_TASTE = SETTINGS_PRIORITIES["addon"] + 1
"""Priority: above the add-on's, below what a project sets."""
NEW_OBJECTS = 50_000
"""After which the garbage collector looks for cycles; by default 700. A page makes thousands that go with it."""


def _yes_or_no(value: Any) -> Any:
    known = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if isinstance(value, str):
        if value.lower() not in known:
            raise ValueError("say yes or no")
        return known[value.lower()]
    return value


YesOrNo = Annotated[bool, BeforeValidator(_yes_or_no)]
"""An argument that is typed as yes or no."""


class SpiderArguments(BaseModel):
    """The base of a spider's arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        if isinstance(value, str) and not is_text(value):  # so Python has bytes of the command line that are not UTF-8
            raise ValueError("it is not text in UTF-8: type it in a terminal that sends UTF-8")
        return value

    def identity(self) -> dict[str, Any]:
        """What tells one harvest from another, as JSON values."""
        return self.model_dump(mode="json")

    def kept(self) -> dict[str, Any]:
        """What a job keeps of them, to be read again on any machine."""
        return self.model_dump(mode="json")

    @classmethod
    def names_file(cls, name: str, value: str) -> bool:
        """Whether a value of an argument, as typed, has a file of this machine read, or its standard input."""
        return value.lstrip().startswith("@") or value.strip() == "-"


class HarvesterSpider(Spider):
    """A spider whose arguments are the pydantic model `Arguments`; a bad one is refused before anything is fetched."""

    Arguments: ClassVar[type[SpiderArguments]] = SpiderArguments
    SERVES_START_LIST: ClassVar[bool] = False
    """Whether entries of a list in Redis tell it where to begin when its arguments do not."""
    IN_SESSIONS: ClassVar[bool] = False
    """Whether its sites are asked in sessions that their entries do not spell out."""
    WAITS_OUT_FAULTS: ClassVar[bool] = True
    """Whether it waits for hosts that cannot be reached. The errbacks of other spiders hear of them within 30 s."""
    HAS_QUOTAS: ClassVar[bool] = False
    """Whether requests of it take of quotas that reach across runs (meta["harvester_quota"])."""
    reads_apart: ClassVar[frozenset[str]] = frozenset()
    """Callbacks that parse their pages by `read`. Those of others are looked at before (CostMiddleware)."""
    MAX_ELEMENTS: ClassVar[int] = sys.maxsize
    """Elements of a page that its callbacks read within a second. At most HARVESTER_MAX_PAGE_ELEMENTS are parsed."""
    read_opt_outs: ClassVar[bool] = False
    """Whether it reads what sites say of training and text mining in files of their own, as a site's entry may say."""

    def __init__(self, config: Config, arguments: SpiderArguments, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.arguments = arguments
        self.crawl_id = ""
        self.resumed = False

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        settings.setdict(TASTES, _TASTE)
        if not settings.getint("DEPTH_LIMIT"):
            base = "SPIDER_MIDDLEWARES_BASE"
            settings.set(base, {**settings[base], **NOT_NEEDED}, _TASTE)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        gc.freeze()  # what was imported by now stays: the garbage collector need not walk it again and again
        gc.set_threshold(NEW_OBJECTS)
        spider = cls(load_config(), cls.parse_arguments(kwargs))
        spider._set_crawler(crawler)
        crawler.signals.connect(spider.on_start_error, signals.spider_error)
        return spider

    @classmethod
    def parse_arguments(cls, given: dict[str, Any]) -> SpiderArguments:
        """The arguments as typed at the terminal. Raises UsageError that names each bad one."""
        try:
            return cls.Arguments(**given)
        except ValidationError as error:
            raise UsageError(
                f"Arguments of {cls.name} cannot be used:\n"
                + "\n".join(f"  {line}" for line in said_of(error, cls.Arguments))
                + f"\n`harvester spiders show {cls.name}` lists them all."
            ) from None

    @classmethod
    def read_staged(cls, kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
        """The record that a staged line was written for; None when it cannot be made of what is in the line.

        Raises ValueError, InvalidRecordError or ParseError when the line is none of its own.
        """
        return None

    @classmethod
    def check_start_entry(cls, entry: bytes) -> bool:
        """Whether an entry of the start list says anything. Raises UsageError when it cannot be used."""
        return bool(entry)

    @property
    def account(self) -> SpiderAccount | None:
        """In whose name requests with meta["authenticate"] go out. Read by the identities middleware."""
        return None

    @property
    def further_accounts(self) -> Sequence[SpiderAccount]:
        """Of a spider that asks several services. Their requests have the name of the site in meta["authenticate"]."""
        return ()

    @property
    def scope(self) -> str:
        """Hash of the arguments: runs of one scope harvest the same."""
        return self.scope_of(self.arguments)

    @staticmethod
    def scope_of(arguments: SpiderArguments) -> str:
        """The same, of any arguments."""
        return hashlib.sha256(msgspec.json.encode(arguments.identity(), order="sorted")).hexdigest()[:16]

    def provenance(self, response: Response | Request) -> Provenance:
        """Of the records of this answer, or of those that a failed request leaves."""
        return Provenance.of(response, self.name, self.crawl_id)

    async def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a parser in a process of its own, which has bounds of time and memory, and returns what it returns.

        For what may cost much, whatever its size. Raises what the parser raises, and TooCostlyError: the page is
        then `invalid`. See harvester.bounded. The callback stands in `reads_apart`, or a large page is parsed twice.
        """
        return await reader_of(self.crawler).call(function, *arguments)

    def read_items(self, bounds: Bounds, function: Callable[..., Any], *arguments: Any) -> AsyncGenerator[Any, None]:
        """Yields what a parser yields in a process of its own, for what is too large to be held as records here.

        Other requests go on between two items. Close it (`aclosing`) when it is not taken to its end.
        """
        return reader_of(self.crawler).items(bounds, function, *arguments)

    def on_start_error(self, failure: Failure, response: Response | Failure | None) -> None:
        """A fault of this program in `start`, to which no answer belongs: the run would end as if all was asked for."""
        if response is None and not is_ending(self.crawler):
            end(self.crawler, "program_error", exit_code=FAULT, said=fault_of(failure.value))

    def stop(self, reason: str, message: str, exit_code: int) -> CloseSpider:
        """The exception that ends the run; the first says why, in the log and in the exit code."""
        if self.crawler.stats.get_value(EXIT_CODE) is None:
            logger.error("%s", message)
            self.crawler.stats.set_value(EXIT_CODE, exit_code)
            self.crawler.stats.set_value(CAUSE, message)
        return CloseSpider(reason)

    def stop_for(self, error: HarvesterError) -> CloseSpider:
        """The exception that ends the run because of `error`; its reason is the error's name in snake case."""
        return self.stop(error.finish_reason, str(error), error.exit_code)


def said_of(error: ValidationError, model: type[SpiderArguments]) -> list[str]:
    """What is wrong with each bad argument."""
    return [": ".join([*map(str, each["loc"][:1]), _said(each, model)]) for each in error.errors()]


def _said(error: ErrorDetails, model: type[SpiderArguments]) -> str:
    said, given = validation.said_of(error), error.get("input")
    if error["type"] == "extra_forbidden":
        near = validation.did_you_mean(str(error["loc"][0]), model.model_fields)
        return f"there is no such argument (given: {given!r}){near}"
    return f"{said} (given: {given!r})" if isinstance(given, str) and given not in said and len(given) < 80 else said
