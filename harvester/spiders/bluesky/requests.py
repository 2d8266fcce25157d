"""How the spider `bluesky` asks: kinds of items, addresses of calls, requests that belong to one item of many."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from scrapy import Request

from harvester.meta import AUTHENTICATE, ITEMS_OF, PART
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.job import JobSpider

SEED, ACCOUNT, THREAD, AUTHOR = "seed", "account", "thread", "author"
"""Kinds of items: a handle to be resolved, a DID, the address of a thread's first post, and the DID of one who is only
asked what it declares, since words of it stand in what others wrote."""
KNOWN_ACCOUNT, KNOWN_THREAD = "known_account", "known_thread"
"""Kinds of accounts and threads that an earlier job has met, and of which it is only asked whether they are there."""
THERE = "there"
"""Stage of one that is there."""

Parameters = Mapping[str, object] | Sequence[tuple[str, object]]


def xrpc(origin: str, call: str, parameters: Parameters) -> str:
    """Address of a call; arrays repeat their name."""
    return f"{origin}/xrpc/{call}?{urlencode(parameters, quote_via=quote)}"


class BlueskyRequests(JobSpider):
    """What all parts of the spider ask with."""

    Arguments = BlueskyArguments
    arguments: BlueskyArguments
    login_origin: str | None = None
    """The signed-in account's own server; None without a login."""

    def service_of(self, arguments: BlueskyArguments) -> str:
        """Who is asked: the AppView, with a login the account's own server, or the web client."""
        if arguments.via == "browser":
            return arguments.web
        return self.login_origin or arguments.service

    def ask(
        self,
        url: str,
        callback: Callable[..., Any],
        *,
        errback: Callable[..., Any] | None = None,
        items: Iterable[str] | None = None,
        part: str = "",
        meta: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Request:
        """A request whose callback is given `arguments`. `items`: ids of those it belongs to, of those of the page.

        `part`: what it asks for of them; empty: themselves.
        """
        of: dict[str, Any] = {} if items is None else {ITEMS_OF: list(items)}
        if part:
            of[PART] = part
        return Request(url, callback, errback=errback, cb_kwargs=arguments, meta={**(meta or {}), **of})

    def call(
        self,
        asked_for: BlueskyArguments,
        name: str,
        parameters: Parameters,
        callback: Callable[..., Any],
        **more: Any,
    ) -> Request:
        """A call of the AppView."""
        url = xrpc(self.service_of(asked_for), name, parameters)
        return self.ask(url, callback, meta={AUTHENTICATE: True}, **more)
