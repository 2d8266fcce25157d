"""via=browser: pages of the web client are rendered, and the API's answers to them are read as via=api reads its own.

A page is scrolled to the end of its list. It begins at the top: where an API's cursor points to, no page can be opened.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from scrapy import Request
from scrapy.http import Response

from harvester.browser.render_options import RENDER, RENDERING, captured_of
from harvester.exceptions import ParseError
from harvester.frontier.changes import Account, Progress
from harvester.middlewares.outcome import count
from harvester.middlewares.usage import USAGE
from harvester.outcomes import Outcome, Verdict
from harvester.parsers.bluesky import identity
from harvester.spiders.bluesky.accounts import Accounts
from harvester.spiders.bluesky.calls import Fail, Output, Read
from harvester.spiders.bluesky.chains import Chains, Step

if TYPE_CHECKING:
    from harvester.spiders.bluesky.spider import BlueskySpider

PROFILE = "app.bsky.actor.getProfile"
RESOLVE = "com.atproto.identity.resolveHandle"
FEED = "app.bsky.feed.getAuthorFeed"
FILTER = "posts_with_replies"
LISTS = {"followers": "app.bsky.graph.getFollowers", "follows": "app.bsky.graph.getFollows"}
"""What the page of the same name asks for."""
REPLIES = '[role="tab"]:has-text("Replies")'
"""The tab of a profile that asks for FILTER."""
SHORT_S = 30.0
"""What a profile may take."""
TAB_S = 5.0
"""How long a tab may not be there when the profile is."""
LONG_S = 300.0
"""What a list may take."""
API_LIMIT = 50
"""Rows of an answer where a request does not say how many."""

_is_special = re.compile(r"[^A-Za-z0-9._-]")


class WebAccounts(Accounts):
    """Profiles, one a page."""

    def begin_seeds(self, handles: list[str]) -> Iterator[Request]:
        for handle in handles:
            # What comes first may be the handle's DID, or the profile of who is signed in.
            steps = [_all_of("*", SHORT_S), {"scroll": "end", "most": 1, "timeout_s": SHORT_S}]
            capture = [_glob(RESOLVE, "handle", handle), _glob(PROFILE)]
            read, fail = partial(self.read_seed_page, handle), partial(self.fail_seeds, [handle])
            yield ask_page(self._spider, f"/profile/{handle}", steps, capture, read, fail)

    def begin(self, accounts: dict[str, Account]) -> Iterator[Request]:
        for did, account in accounts.items():
            glob = _glob(PROFILE, "actor", did)
            read, fail = partial(self.read_page, account), partial(self.fail_profiles, [did])
            yield ask_page(self._spider, f"/profile/{did}", [_all_of(glob, SHORT_S)], [glob], read, fail)

    def read_seed_page(self, handle: str, response: Response) -> Iterator[Output]:
        names = {handle.lower()}
        for answer in answers_to(response, RESOLVE):
            names.add(identity.parse_resolved(answer.body))
        found = [answer for answer in answers_to(response, PROFILE) if _parameter(answer, "actor").lower() in names]
        yield from self.read_seed(handle, _last(found, f"{PROFILE} of {handle}"))

    def read_page(self, account: Account, response: Response) -> Iterator[Output]:
        found = answers_to(response, PROFILE, actor=account.did)
        yield from self.read_profile({account.did: account}, _last(found, f"{PROFILE} of {account.did}"))


class WebChains(Chains):
    """Lists, each a page of the web client; in the ledger it is one page, too."""

    def begin(self, account: Account) -> Iterator[Request]:
        for chain in account.todo:
            yield self.ask(Step(account, chain, 0, None))

    def ask(self, step: Step) -> Request:
        path, fail = f"/profile/{step.account.did}", partial(self.fail, step)
        profile = _glob(PROFILE, "actor", step.account.did)  # it says why there is no list
        if step.chain == "feed":
            glob, tab = _glob(FEED, "filter", FILTER), {"click": REPLIES, "timeout_s": TAB_S, "optional": True}
            steps = [_all_of(profile, SHORT_S), tab, _all_of(glob, LONG_S)]
            return ask_page(self._spider, path, steps, [profile, glob], partial(self.read_feed_page, step), fail)
        glob = _glob(LISTS[step.chain], "actor", step.account.did)
        read = partial(self.read_list_page, step)
        return ask_page(self._spider, f"{path}/{step.chain}", [_all_of(glob, LONG_S)], [profile, glob], read, fail)

    def read_list_page(self, step: Step, response: Response) -> Iterator[Output]:
        call = LISTS[step.chain]
        answers = answers_to(response, call, actor=step.account.did)
        _last(answers, f"{call} of {step.account.did}")
        yield from self._read_all(step, response, answers, self.read_graph)

    def read_feed_page(self, step: Step, response: Response) -> Iterator[Output]:
        answers = answers_to(response, FEED, actor=step.account.did, filter=FILTER)
        _last(answers, f"{FEED} of {step.account.did} with replies, which some clients show to who is signed in only")
        yield from self._read_all(step, response, answers, self.read_feed)

    def _read_all(
        self,
        step: Step,
        response: Response,
        answers: list[Response],
        read: Callable[[Step, Response], Iterator[Output]],
    ) -> Iterator[Output]:
        """What is read of all answers. The list is done when they lead without a gap from its top to its end."""
        told: list[tuple[str, int, str]] = []
        for answer in answers:
            for output in read(step, answer):
                if isinstance(output, Progress):
                    told.append((_parameter(answer, "cursor"), _limit(answer), output.cursor or ""))
                else:
                    yield output
        if leads_to_end(told):
            yield step.done(None)
        else:
            verdict = Verdict(Outcome.NAVIGATION_FAILED, "the page did not come to the end of the list")
            count(self._spider.crawler.stats, verdict, response.url)
            yield from self.fail(step, verdict)

    def _go_on(self, step: Step, cursor: str | None) -> tuple[str | None, list[Request]]:
        """The page itself asks for what follows."""
        return cursor, []


def ask_page(
    spider: "BlueskySpider", path: str, steps: list[dict[str, Any]], capture: list[str], read: Read, fail: Fail
) -> Request:
    """A page of the web client, which is judged by what the API answers to it."""
    rendering = {
        "steps": steps,
        "capture": capture,
        "judge_captured": True,
        "locale": "en-US",  # REPLIES is a word of it
        "timeout_s": sum(step.get("timeout_s", SHORT_S) for step in steps) + SHORT_S,
    }
    return spider.ask(spider.service + path, read, fail, **{RENDER: True, RENDERING: rendering})


def of_page(verdict: Verdict) -> Verdict:
    """The verdict on what a page stands for. That a page itself is not there says nothing of an account."""
    if verdict.outcome in (Outcome.NOT_FOUND, Outcome.GONE) and not verdict.rule.startswith("api-"):
        return verdict._replace(outcome=Outcome.LAYOUT_CHANGED, reason=f"there is no such page ({verdict.reason})")
    return verdict


def answers_to(response: Response, call: str, **parameters: str) -> list[Response]:
    """What the page was answered to this call with these parameters, in the order of the answers."""
    found = [
        answer
        for answer in captured_of(response)
        if answer.status == 200
        and urlsplit(answer.url).path == f"/xrpc/{call}"
        and all(_parameter(answer, name) == value for name, value in parameters.items())
    ]
    if (usage := response.meta.get(USAGE)) is not None:
        for answer in found:
            answer.meta[USAGE] = usage
    return found


def leads_to_end(told: list[tuple[str, int, str]]) -> bool:
    """Whether a list was read from its top to its end. `told`: cursor and limit asked with, cursor given; empty: none.

    Of the answers to one cursor the last with the greatest limit counts: clients look for what is new by a small one.
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
    """The step to the end of a list. What it did not come to in time shows in what was captured."""
    return {"captured": glob, "timeout_s": timeout_s, "optional": True}


def _glob(call: str, name: str = "", value: str = "") -> str:
    """Addresses of a call, in which a parameter may be escaped in any way."""
    return f"*/xrpc/{call}[?]*" + (f"{name}={_is_special.sub('*', value)}*" if name else "")


def _limit(answer: Response) -> int:
    limit = _parameter(answer, "limit")
    return int(limit) if limit.isdecimal() else API_LIMIT


def _parameter(answer: Response, name: str) -> str:
    return parse_qs(urlsplit(answer.url).query).get(name, [""])[0]
