"""The base of harvester's spiders: typed arguments, provenance, and runs that report why they end."""

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
    "COOKIES_ENABLED": False,  # APIs need no cookies; sites with sessions set them up in their entries
    "REFERRER_POLICY": "no-referrer",  # default sends one; APIs do not need it
    "REDIRECT_MAX_TIMES": 5,  # default 20
    "METAREFRESH_ENABLED": False,  # default True; API responses do not need it
    "DOWNLOAD_TIMEOUT": 60,  # default 180
    "DOWNLOAD_WARNSIZE": 0,  # default 32 MiB; DOWNLOAD_MAXSIZE is an error already
    "URLLENGTH_LIMIT": 0,  # default 2083; 25 at-uris in a query are longer
    "MEDIA_ALLOW_REDIRECTS": True,  # default False; CDNs redirect
    "CONCURRENT_ITEMS": 2,  # default 100: tasks started for every response; records come in batches
    "WARN_ON_GENERATOR_RETURN_VALUE": False,  # default True: reads a callback's source again for every response
}
"""Scrapy's settings that harvester's spiders override. Each line says why."""
NOT_NEEDED = {
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,  # following pages is not depth
}
"""Scrapy's spider middlewares that harvester's spiders switch off."""
_TASTE = SETTINGS_PRIORITIES["addon"] + 1
"""Priority above the add-on's, below a project's own settings."""
NEW_OBJECTS = 50_000
"""Number of new objects before the garbage collector looks for cycles; Python's default is 700.

A page makes thousands of objects that are freed with it.
"""


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
        if isinstance(value, str) and not is_text(value):  # Python keeps bytes that are not UTF-8 as surrogates
            raise ValueError("it is not text in UTF-8: type it in a terminal that sends UTF-8")
        return value

    def identity(self) -> dict[str, Any]:
        """Returns the values that identify a harvest, as JSON."""
        return self.model_dump(mode="json")

    def kept(self) -> dict[str, Any]:
        """Returns the arguments that a job saves, as JSON that any machine can read."""
        return self.model_dump(mode="json")

    @classmethod
    def names_file(cls, name: str, value: str) -> bool:
        """Returns True if a typed value makes the spider read a local file or standard input."""
        return value.lstrip().startswith("@") or value.strip() == "-"


class HarvesterSpider(Spider):
    """A spider whose arguments are the pydantic model `Arguments`; bad arguments stop it before the first request."""

    Arguments: ClassVar[type[SpiderArguments]] = SpiderArguments
    SERVES_START_LIST: ClassVar[bool] = False
    """True if a start list in Redis supplies the first items when the arguments do not."""
    IN_SESSIONS: ClassVar[bool] = False
    """True if the spider's sites need sessions even when their entries do not configure them."""
    WAITS_OUT_FAULTS: ClassVar[bool] = True
    """True if requests wait while their host cannot be reached. Otherwise errbacks receive the failure within 30 s."""
    HAS_QUOTAS: ClassVar[bool] = False
    """True if requests use quotas that are shared by all runs (meta["harvester_quota"])."""
    reads_apart: ClassVar[frozenset[str]] = frozenset()
    """Names of callbacks that parse pages by `read`. CostMiddleware checks the pages of all other callbacks first."""
    MAX_ELEMENTS: ClassVar[int] = sys.maxsize
    """Maximum number of elements in a page that callbacks can read within a second.

    HARVESTER_MAX_PAGE_ELEMENTS is a further limit.
    """
    read_opt_outs: ClassVar[bool] = False
    """True if the sites' opt-out files for training and text mining are read. A site's entry can set this, too."""

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
        gc.freeze()  # modules stay loaded: the garbage collector need not scan them
        gc.set_threshold(NEW_OBJECTS)
        spider = cls(load_config(), cls.parse_arguments(kwargs))
        spider._set_crawler(crawler)
        crawler.signals.connect(spider.on_start_error, signals.spider_error)
        return spider

    @classmethod
    def parse_arguments(cls, given: dict[str, Any]) -> SpiderArguments:
        """Parses the arguments as typed at the terminal. Raises UsageError that names each bad one."""
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
        """Returns the record that a staged line was written for; None when the line holds too little for it.

        Raises ValueError, InvalidRecordError or ParseError when the line was not written by this spider.
        """
        return None

    @classmethod
    def check_start_entry(cls, entry: bytes) -> bool:
        """Returns True if an entry of the start list is not empty. Raises UsageError when it cannot be used."""
        return bool(entry)

    @property
    def account(self) -> SpiderAccount | None:
        """The account that requests with meta["authenticate"] use. The identities middleware reads it."""
        return None

    @property
    def further_accounts(self) -> Sequence[SpiderAccount]:
        """The accounts for further services. Their requests have the site's name in meta["authenticate"]."""
        return ()

    @property
    def scope(self) -> str:
        """Hash of the run's arguments: runs with the same scope harvest the same data."""
        return self.scope_of(self.arguments)

    @staticmethod
    def scope_of(arguments: SpiderArguments) -> str:
        """Returns the hash of any arguments."""
        return hashlib.sha256(msgspec.json.encode(arguments.identity(), order="sorted")).hexdigest()[:16]

    def provenance(self, response: Response | Request) -> Provenance:
        """Returns the provenance for records from a response or a failed request."""
        return Provenance.of(response, self.name, self.crawl_id)

    async def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a parser in a separate process, with limits of time and memory, and returns its result.

        Use it for any page that may be expensive to parse, whatever its size. Raises the parser's exceptions, and
        TooCostlyError: the page is then `invalid`. See harvester.bounded. List the callback in `reads_apart`, or large
        pages are parsed twice.
        """
        return await reader_of(self.crawler).call(function, *arguments)

    def read_items(self, bounds: Bounds, function: Callable[..., Any], *arguments: Any) -> AsyncGenerator[Any, None]:
        """Yields the output of a parser that runs in a separate process, for data too large for the memory of this one.

        Other requests go on between two items. Use `aclosing` when the caller may stop early.
        """
        return reader_of(self.crawler).items(bounds, function, *arguments)

    def on_start_error(self, failure: Failure, response: Response | Failure | None) -> None:
        """Ends the run for a program error in `start`: otherwise it would look as if everything had been requested."""
        if response is None and not is_ending(self.crawler):
            end(self.crawler, "program_error", exit_code=FAULT, said=fault_of(failure.value))

    def stop(self, reason: str, message: str, exit_code: int) -> CloseSpider:
        """Returns the exception that ends the run. The first call sets the message and exit code."""
        if self.crawler.stats.get_value(EXIT_CODE) is None:
            logger.error("%s", message)
            self.crawler.stats.set_value(EXIT_CODE, exit_code)
            self.crawler.stats.set_value(CAUSE, message)
        return CloseSpider(reason)

    def stop_for(self, error: HarvesterError) -> CloseSpider:
        """Returns the exception that ends the run for `error`; its reason is the error's name in snake case."""
        return self.stop(error.finish_reason, str(error), error.exit_code)


def said_of(error: ValidationError, model: type[SpiderArguments]) -> list[str]:
    """Returns a message for each bad argument."""
    return [": ".join([*map(str, each["loc"][:1]), _said(each, model)]) for each in error.errors()]


def _said(error: ErrorDetails, model: type[SpiderArguments]) -> str:
    said, given = validation.said_of(error), error.get("input")
    if error["type"] == "extra_forbidden":
        near = validation.did_you_mean(str(error["loc"][0]), model.model_fields)
        return f"there is no such argument (given: {given!r}){near}"
    return f"{said} (given: {given!r})" if isinstance(given, str) and given not in said and len(given) < 80 else said
