"""The requests of the spider `bluesky`: kinds of items, addresses of calls, requests for single items of a page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from scrapy import Request

from harvester.internal_meta import ITEMS_OF, PART
from harvester.meta import AUTHENTICATE
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.job import JobSpider

SEED, ACCOUNT, THREAD, AUTHOR = "seed", "account", "thread", "author"
"""Kinds of items: a handle to resolve; a DID; the address of a thread's first post; an author's DID.

For an author only the declaration is requested, because others' posts contain the author's words.
"""
KNOWN_ACCOUNT, KNOWN_THREAD = "known_account", "known_thread"
"""Kinds of accounts and threads from an earlier job that are only checked for existence."""
THERE = "there"
"""Stage of an item that exists."""

Parameters = Mapping[str, object] | Sequence[tuple[str, object]]


def xrpc(origin: str, call: str, parameters: Parameters) -> str:
    """Returns the address of a call; arrays repeat their name."""
    return f"{origin}/xrpc/{call}?{urlencode(parameters, quote_via=quote)}"


class BlueskyRequests(JobSpider):
    """The requests that all parts of the spider use."""

    Arguments = BlueskyArguments
    arguments: BlueskyArguments
    login_origin: str | None = None
    """The signed-in account's own server; None without a login."""

    def service_of(self, arguments: BlueskyArguments) -> str:
        """Returns the server for requests: the AppView, with a login the account's own server, or the web client."""
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
        """Returns a request. `arguments` go to the callback; `items`: ids, if it belongs to only some items of the
        page.

        `part`: the part of the items that it requests; empty: the items themselves.
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
        """Returns a request for a call of the AppView."""
        url = xrpc(self.service_of(asked_for), name, parameters)
        return self.ask(url, callback, meta={AUTHENTICATE: True}, **more)
