"""via=browser: renders pages of the web client, and parses the captured API responses like those for via=api.

A page is scrolled to the end of a list, always from the top: a page cannot be opened at an API's cursor.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.browser.render_options import captured_of
from harvester.exceptions import PageFailed, ParseError
from harvester.internal_meta import ITEMS, USAGE
from harvester.jobs.documents import JobItem
from harvester.meta import JOB, RENDER, RENDERING
from harvester.outcomes import Outcome, Verdict, verdict_of
from harvester.parsers.bluesky import identity
from harvester.parsers.bluesky import responses as parse
from harvester.spiders.bluesky.accounts import (
    absent,
    account_of_seed,
    accounts_of,
    is_absent,
    of_account,
)
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.bluesky.authors import authors_of
from harvester.spiders.bluesky.declarations import Account
from harvester.spiders.bluesky.gaps import own_posts
from harvester.spiders.bluesky.lists import Lists, found_of, in_time, lists_wanted
from harvester.spiders.bluesky.revisits import collected
from harvester.spiders.job import errback

PROFILE = "app.bsky.actor.getProfile"
RESOLVE = "com.atproto.identity.resolveHandle"
FEED = "app.bsky.feed.getAuthorFeed"
FILTER = "posts_with_replies"
LISTS = {"followers": "app.bsky.graph.getFollowers", "follows": "app.bsky.graph.getFollows"}
"""Page of the web client -> the call that it makes."""
REPLIES = '[role="tab"]:has-text("Replies")'
"""The tab of a profile that uses FILTER."""
SHORT_S = 30.0
"""Seconds that a profile may take."""
TAB_S = 5.0
"""Seconds to wait for a tab after the profile is there."""
LONG_S = 300.0
"""Seconds that a list may take."""
API_LIMIT = 50
"""Default number of rows in a response."""

_is_special = re.compile(r"[^A-Za-z0-9._-]")


class WebPages(Lists):
    """Requests pages of the web client, one for each seed, profile and list, and reads the captured API responses."""

    def seed_page_requests(self, asked_for: BlueskyArguments, seeds: Sequence[JobItem]) -> Iterator[Request]:
        """Yields the pages that resolve handles."""
        # The first response may be the handle's DID, or the profile of the signed-in account.
        steps = [_all_of("*", SHORT_S), {"scroll": "end", "most": 1, "timeout_s": SHORT_S}]
        for seed in seeds:
            capture = [_glob(RESOLVE, "handle", seed.key), _glob(PROFILE)]
            own = {"handle": seed.key, "item": seed.id}
            yield self._page(
                asked_for, f"/profile/{seed.key}", steps, capture, self.read_seed_page, self.seed_page_failed, own
            )

    def account_page_requests(self, asked_for: BlueskyArguments, items: Sequence[JobItem]) -> Iterator[Request]:
        """Yields the pages of profiles."""
        for account in accounts_of(items).values():
            yield self.profile_page_request(asked_for, account)

    def known_account_page_requests(self, asked_for: BlueskyArguments, items: Sequence[JobItem]) -> Iterator[Request]:
        """Yields the pages of profiles that are only checked for existence."""
        for item in items:
            account = {"id": item.id, "did": item.key}
            yield self.profile_page_request(asked_for, account, self.read_known_page)

    def profile_page_request(self, asked_for: BlueskyArguments, account: Account, callback: Any = None) -> Request:
        """Returns the request for the page of a single profile."""
        glob = _glob(PROFILE, "actor", account["did"])
        steps, own = [_all_of(glob, SHORT_S)], {"account": account, "item": account["id"]}
        path = f"/profile/{account['did']}"
        return self._page(
            asked_for, path, steps, [glob], callback or self.read_profile_page, self.profile_page_failed, own
        )

    def list_page_requests(self, asked_for: BlueskyArguments, account: Account) -> Iterator[Request]:
        """Yields the pages of an account's lists."""
        for name in lists_wanted(asked_for):
            path, own = f"/profile/{account['did']}", {"account": account, "list_name": name, "item": account["id"]}
            profile = _glob(PROFILE, "actor", account["did"])  # the profile shows why a list is missing
            if name == "feed":
                glob, tab = _glob(FEED, "filter", FILTER), {"click": REPLIES, "timeout_s": TAB_S, "optional": True}
                steps, read = [_all_of(profile, SHORT_S), tab, _all_of(glob, LONG_S)], self.read_feed_page
            else:
                glob = _glob(LISTS[name], "actor", account["did"])
                path, steps, read = f"{path}/{name}", [_all_of(glob, LONG_S)], self.read_graph_page
            yield self._page(asked_for, path, steps, [profile, glob], read, self.list_page_failed, own)

    def _page(
        self,
        asked_for: BlueskyArguments,
        path: str,
        steps: list[dict[str, Any]],
        capture: list[str],
        callback: Any,
        errback: Any,
        own: dict[str, Any],
    ) -> Request:
        """Returns the request for a page of the web client. Its outcome depends on the API's responses."""
        rendering = {
            "steps": steps,
            "capture": capture,
            "judge_captured": True,
            "locale": "en-US",  # REPLIES is an English word
            "timeout_s": sum(step.get("timeout_s", SHORT_S) for step in steps) + SHORT_S,
        }
        meta = {RENDER: True, RENDERING: rendering}
        of = {"items": [own["item"]], "part": own.get("list_name", "")}
        return self.ask(asked_for.web + path, callback, errback=errback, meta=meta, **of, **own)

    # Reading ----------------------------------------------------------------------------------------------

    def read_seed_page(self, response: Response, handle: str, item: str) -> Iterator[Any]:
        """Yields the account whose profile the page showed."""
        names = {handle.lower()}
        for answer in answers_to(response, RESOLVE):
            names.add(identity.parse_resolved(answer.body))
        found = [answer for answer in answers_to(response, PROFILE) if _parameter(answer, "actor").lower() in names]
        answer = _last(found, f"{PROFILE} of {handle}")
        yield from account_of_seed(item, parse.parse_profile(answer.body, self.provenance(answer)))

    def read_profile_page(self, response: Response, account: Account, item: str) -> Iterator[Any]:
        """Reads the profile that the page showed."""
        asked_for = self.arguments_of(response)
        did = account["did"]
        answer = _last(answers_to(response, PROFILE, actor=did), f"{PROFILE} of {did}")
        parsed = parse.parse_profile(answer.body, self.provenance(answer))
        yield from self.read_found(asked_for, {did: account}, of_account(did, parsed))

    def read_known_page(self, response: Response, account: Account, item: str) -> Iterator[Any]:
        """Ends the check of an account that exists."""
        answer = _last(answers_to(response, PROFILE, actor=account["did"]), f"{PROFILE} of {account['did']}")
        yield from self.read_known_account(answer, account)

    def read_graph_page(self, response: Response, account: Account, list_name: str, item: str) -> Iterator[Any]:
        """Reads followers or follows, as far as the page was scrolled."""
        asked_for = self.arguments_of(response)
        answers = answers_to(response, LISTS[list_name], actor=account["did"])
        _last(answers, f"{LISTS[list_name]} of {account['did']}")
        told: list[tuple[str, int, str]] = []
        for answer in answers:
            parsed, members = parse.parse_graph(answer.body, self.provenance(answer))
            yield parsed.records
            yield from parsed.rejects
            yield from found_of(asked_for, account, members)
            told.append((_parameter(answer, "cursor"), _limit(answer), parsed.cursor or ""))
        _check_whole(told)

    def read_feed_page(self, response: Response, account: Account, list_name: str, item: str) -> Iterator[Any]:
        """Reads posts and reposts, as far as the page was scrolled."""
        asked_for = self.asked_of(response, account)
        answers = answers_to(response, FEED, actor=account["did"], filter=FILTER)
        shown = "with replies, which some clients show to who is signed in only"
        _last(answers, f"{FEED} of {account['did']} {shown}")
        told: list[tuple[str, int, str]] = []
        own, is_limited = set[str](), bool(asked_for.since or asked_for.until)
        for answer in answers:
            parsed = parse.parse_feed(answer.body, self.provenance(answer))
            wanted, is_over = in_time(asked_for, parsed.records)
            yield wanted
            yield from parsed.rejects
            yield from authors_of(asked_for, wanted, account["did"])
            own |= own_posts(account, parsed)
            is_limited = is_limited or is_over
            told.append((_parameter(answer, "cursor"), _limit(answer), "" if is_over else parsed.cursor or ""))
        _check_whole(told)
        if not is_limited and (ended_early := self.feed_ended_early(account, len(own))):
            yield ended_early
        else:
            yield collected(account)

    # Failures ---------------------------------------------------------------------------------------------

    @errback
    def seed_page_failed(self, failure: Failure) -> Iterator[Any]:
        """Fails the item of a handle that belongs to no account."""
        if (verdict := _verdict_of_page(failure)) and is_absent(verdict):
            handle = failure.request.cb_kwargs["handle"]  # type: ignore[attr-defined]
            self.logger.warning("The seed %s cannot be used: %s. Is it spelt right?", handle, verdict.reason)
            self.crawler.stats.inc_value("harvester/seeds/rejected")
        yield from self._page_failed(failure)

    @errback
    def profile_page_failed(self, failure: Failure) -> Iterator[Any]:
        """Fails the item of a missing account."""
        yield from self._page_failed(failure)

    @errback
    def list_page_failed(self, failure: Failure) -> Iterator[Any]:
        """Fails the item of a missing account whose list was requested."""
        yield from self._page_failed(failure)

    def _page_failed(self, failure: Failure) -> Iterator[Any]:
        verdict = _verdict_of_page(failure)
        if is_absent(verdict) or verdict.outcome is Outcome.LAYOUT_CHANGED:
            yield absent(failure.request.cb_kwargs["item"], verdict)  # type: ignore[attr-defined]


def _verdict_of_page(failure: Failure) -> Verdict:
    """Returns the verdict on a page's account or list. A missing page is a changed layout, not a missing account."""
    assert failure.value
    verdict = verdict_of(failure.value)
    if is_absent(verdict) and not verdict.rule.startswith("api-"):
        return verdict._replace(outcome=Outcome.LAYOUT_CHANGED, reason=f"there is no such page ({verdict.reason})")
    return verdict


def _check_whole(told: list[tuple[str, int, str]]) -> None:
    """Raises PageFailed when the responses do not cover the list from top to end. Records so far are stored."""
    if not leads_to_end(told):
        raise PageFailed(Outcome.NAVIGATION_FAILED, "the page did not come to the end of the list")


def answers_to(response: Response, call: str, **parameters: str) -> list[Response]:
    """Returns the page's responses to a call with these parameters, in their order."""
    found = [
        answer
        for answer in captured_of(response)
        if answer.status == 200
        and urlsplit(answer.url).path == f"/xrpc/{call}"
        and all(_parameter(answer, name) == value for name, value in parameters.items())
    ]
    of_page = {name: response.meta[name] for name in (USAGE, JOB, ITEMS) if name in response.meta}
    for answer in found:
        answer.meta.update(of_page)
    return found


def leads_to_end(told: list[tuple[str, int, str]]) -> bool:
    """Returns True if a list was read from top to end. `told`: used cursor, limit, and next cursor; empty: none.

    When several responses belong to a cursor, the last with the largest limit counts: clients poll with a small limit.
    """
    given = {asked: further for asked, _, further in sorted(told, key=lambda each: each[1])}
    at, seen = "", set[str]()
    while at in given and at not in seen:
        seen.add(at)
        at = given[at]
        if not at:
            return True
    return False


def _last(answers: list[Response], wanted: str) -> Response:
    if not answers:
        raise ParseError(f"the page got no answer to {wanted}")
    return answers[-1]


def _all_of(glob: str, timeout_s: float) -> dict[str, Any]:
    """Returns the step that scrolls to the end of a list. The captured responses show whether it got there in time."""
    return {"captured": glob, "timeout_s": timeout_s, "optional": True}


def _glob(call: str, name: str = "", value: str = "") -> str:
    """Returns a pattern for a call's addresses: a parameter may be escaped in any way."""
    return f"*/xrpc/{call}?*" + (f"{name}={_is_special.sub('*', value)}*" if name else "")


def _limit(answer: Response) -> int:
    limit = _parameter(answer, "limit")
    return int(limit) if limit.isdecimal() and len(limit) < 10 else API_LIMIT


def _parameter(answer: Response, name: str) -> str:
    return parse_qs(urlsplit(answer.url).query).get(name, [""])[0]
