"""How the spider `bluesky` asks: addresses of calls, and what its readers yield."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import quote, urlencode

from scrapy import Request
from scrapy.http import Response

from harvester.frontier.changes import Change
from harvester.items import Record, Reject
from harvester.outcomes import Verdict

Output = Request | Record | list[Record] | Reject | Change
Read = Callable[[Response], Iterable[Output]]
Fail = Callable[[Verdict], Iterable[Output]]
Parameters = Mapping[str, object] | Sequence[tuple[str, object]]


def xrpc(origin: str, call: str, parameters: Parameters) -> str:
    """Address of a call; arrays repeat their name."""
    return f"{origin}/xrpc/{call}?{urlencode(parameters, quote_via=quote)}"
