"""Requests the declarations of authors who are quoted or reply, but are not harvested themselves.

They may lie beyond `max_accounts` or `depth`, or appear only in a thread. They are items of their own kind; nothing
else is requested for them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scrapy import Request
from scrapy.http import Response

from harvester.items import Found, ItemResult, Record, Stage
from harvester.items.bluesky import Post, is_did
from harvester.jobs.documents import JobItem
from harvester.outcomes import Outcome
from harvester.parsers.bluesky.scrub import quotes_of
from harvester.privacy.opt_outs import UNKNOWN
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.declarations import Account, Declarations
from harvester.spiders.bluesky.requests import AUTHOR

ASKED = "asked"
"""Stage of an author whose declaration was requested."""
LAST = 100
"""Depth of authors: they come last, because most are also accounts whose declarations are known by then."""
RECHECK = "every 30d"
"""Recheck policy of authors in a recurring job; its accounts may be visited every hour."""


class Authors(Declarations):
    """Requests the declarations of authors, and reads the responses."""

    def author_requests(self, items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        """Yields the requests for authors' declarations, or the results for authors whose server has already been
        asked.
        """
        for item in items:
            if item.key in self.asked and item.looked is None:
                yield ItemResult(item.id, "done", Outcome.OK)
            else:
                account = {"id": item.id, "did": item.key, "handle": item.input.get("handle", ""), "is_author": True}
                yield self.ask_declaration(account)

    def author_allows(self, page: Response | Request, account: Account) -> Iterator[Any]:
        """Ends the item of an author whose words may stay, and clears an earlier refusal."""
        if account.get("intents") is not None and self.declared_before(account):
            yield self.stub(page, account, intents=account["intents"])
        yield Stage(account["id"], ASKED, 1)

    def leave_unknown(self, page: Response | Request, account: Account, reason: str) -> Iterator[Any]:
        """Removes the words of an author as well, unless the author was harvested before."""
        if account.get("is_author"):
            yield self.stub(page, account, opt_outs=UNKNOWN)
        yield from super().leave_unknown(page, account, reason)


def authors_of(asked_for: BlueskyArguments, records: Iterable[Record], but: str = "") -> Iterator[Found]:
    """Yields the authors of posts and of quoted posts, except one account."""
    if not asked_for.asks_authors:
        return
    handles: dict[str, str] = {}
    for record in records:
        if isinstance(record, Post):
            handles[record.did] = record.handle
            handles |= {quote.did: quote.handle or "" for quote in quotes_of(record) if quote.did and quote.text}
    handles.pop(but, None)
    for did, handle in sorted(handles.items()):
        if is_did(did):
            yield Found(AUTHOR, did, {"handle": handle} if handle else {}, depth=LAST, recheck=RECHECK)
