"""The spider `tree`: items that lead to items, each with a page and what that leads to."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import UsageError
from harvester.items import Found, ItemResult, Looked, Record, Stage
from harvester.jobs.documents import JobItem
from harvester.spiders.base import SpiderArguments
from harvester.spiders.job import JobSpider


class Leaf(Record, frozen=True, kw_only=True, gc=False):
    """What a page yields."""

    KIND = "leaf"
    COLLECTION = "leaves"
    KEY = ("path",)

    path: str


class TreeArguments(SpiderArguments):
    """Where the trees are, and how much of them is wanted."""

    urls: str = Field(description="addresses of the sites, comma-separated")
    most: int = Field(0, description="the most pages that are asked for; 0: all")
    first: str = Field("1", description="numbers of the pages to begin with, comma-separated")


class TreeSpider(JobSpider):
    """Asks for the pages of a tree, and for two more of each; a page names those below it.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a urls=http://127.0.0.1:<port>`.
    """

    name = "tree"
    Arguments = TreeArguments
    ITEM_KINDS = ("page",)
    ITEMS_A_REQUEST: ClassVar[int | Mapping[str, int]] = {"pair": 2}
    ATTEMPTS = 3
    BACKOFF_S = 0.2
    arguments: TreeArguments

    @classmethod
    def first_items(cls, arguments: Any) -> Iterator[Found]:
        for url in arguments.urls.split(","):
            for number in arguments.first.split(","):
                yield Found("page", f"{url}/page/{number}")

    @classmethod
    def limits_of(cls, arguments: SpiderArguments) -> dict[str, int]:
        assert isinstance(arguments, TreeArguments)
        return {"page": arguments.most} if arguments.most else {}

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request]:
        if items[0].kind == "pair":
            site = items[0].key.rpartition("/")[0]
            yield Request(f"{site}/{'+'.join(item.key.rpartition('/')[2] for item in items)}", self.parse_pair)
            return
        (item,) = items
        yield Request(item.key, cb_kwargs={"depth": item.depth})

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        """A page: what is below it, how it looks from behind, and something that comes in pairs."""
        site, _, number = response.url.rpartition("/page/")
        yield Leaf(path=response.url, provenance=self.provenance(response))
        for below in json.loads(response.body)["below"]:
            yield Found("page", f"{site}/page/{below}")
        yield Found("pair", f"{site}/pair/{number}", depth=kwargs["depth"])
        yield Request(f"{site}/behind/{number}", self.parse_behind)

    def parse_behind(self, response: Response) -> Iterator[Any]:
        yield Leaf(path=response.url, provenance=self.provenance(response))
        yield Stage(self.item_of(response).id, "seen from behind")

    def parse_pair(self, response: Response) -> Iterator[Any]:
        site, _, numbers = response.url.rpartition("/")
        for number in numbers.split("+"):
            yield Leaf(path=f"{site}/{number}", provenance=self.provenance(response))


class ListedArguments(SpiderArguments):
    """Where the keys stand."""

    keys: str = Field(description="path of a file or a pipe, with a key a line")


class ListedSpider(JobSpider):
    """Notes what stands in a file, and asks for nothing.

    Domain: none. Caveats: none. Arguments: `-a keys=FILE`.
    """

    name = "listed"
    Arguments = ListedArguments
    ITEM_KINDS = ("line",)

    @classmethod
    def first_items(cls, arguments: Any) -> Iterator[Found]:
        with Path(arguments.keys).open() as file:
            for line in file:
                yield Found("line", line.strip())

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[ItemResult]:
        return [ItemResult(item.id, "done", "noted") for item in items]


class ServedArguments(SpiderArguments):
    """Where it is said that something may go on."""

    pipe: str = Field(description="path of a file; of a pipe that nobody writes into: nothing goes on")
    group: str = Field("", description="whose keys they are")


class ServedSpider(JobSpider):
    """Notes what its start list says, a word each, `GROUP-KEY`. Of keys that are numbers it knows when it may go on.

    Domain: none. Caveats: none. Arguments: `-a pipe=FILE`.
    """

    name = "served"
    Arguments = ServedArguments
    ITEM_KINDS = ("word",)

    @property
    def is_serving(self) -> bool:
        return True

    @classmethod
    def read_start_entry(cls, entry: bytes, own: SpiderArguments) -> tuple[SpiderArguments, list[Found]]:
        assert isinstance(own, ServedArguments)
        group, _, key = entry.decode().partition("-")
        return own.model_copy(update={"group": group}), [Found("word", key, {"pipe": own.pipe})]

    @classmethod
    def site_of(cls, found: Found) -> str:
        if found.key.isdecimal():
            Path(found.input["pipe"]).read_text()
        return ""

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[ItemResult]:
        return [ItemResult(item.id, "done", "noted") for item in items]


class StandingTreeArguments(TreeArguments):
    """Where the trees are, and when their pages are looked at again."""

    recheck: str = Field("every 1h", description="when pages are looked at again")

    def identity(self) -> dict[str, Any]:
        return {"urls": self.urls}


class StandingTreeSpider(TreeSpider):
    """Looks at pages of a tree again and again: each has a record of its own, and one of each page below it.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a urls=http://127.0.0.1:<port>`.
    """

    name = "standing_tree"
    Arguments = StandingTreeArguments

    @classmethod
    def recheck_of(cls, arguments: StandingTreeArguments) -> str | None:
        return arguments.recheck

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        site, _, number = response.url.rpartition("/page/")
        yield Leaf(path=response.url, provenance=self.provenance(response))
        for below in json.loads(response.body)["below"]:
            yield Leaf(path=f"{site}/page/{below}", provenance=self.provenance(response))
        if number == "2":
            yield Looked(self.item_of(response).id, changed=True, cost=0.5)


class PatientTreeSpider(TreeSpider):
    """The same, with an hour between attempts.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a urls=http://127.0.0.1:<port>`.
    """

    name = "patient_tree"
    BACKOFF_S = 3600


class RefusedTreeSpider(TreeSpider):
    """The same, of which nothing can be asked.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a urls=http://127.0.0.1:<port>`.
    """

    name = "refused_tree"

    async def before(self) -> None:
        raise UsageError("It cannot be used here.")


class BrokenTreeSpider(TreeSpider):
    """The same, with a fault of its own.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a urls=http://127.0.0.1:<port>`.
    """

    name = "broken_tree"

    async def before(self) -> None:
        raise KeyError("a fault of the spider")
