"""A site that shows its login or its disclaimer to nobody gives its requests an outcome; they do not wait for ever."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from harvester.identities import pool
from harvester.identities.form import FormLogin
from harvester.identities.identity import MIN_BARRED, Identity
from harvester.identities.limited_logins import LimitedLogins, NotNow, barred
from harvester.identities.pool import Barred, IdentityPool, IdentityRequest, Later
from harvester.identities.state import Session, StateFile
from harvester.outcomes import Outcome
from harvester.sites import Site
from harvester.sites.identities import FormLoginEntry, Identities, Sign
from tests.identities.without_crawl import Clock, pause


@pytest.fixture
def hours(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of pools as well."""
    monkeypatch.setattr(pool, "time", SimpleNamespace(time=clock.time))
    return clock


PAGE = "https://county.example/Disclaimer.aspx"
WELCOME = b"<form method=post action=''><input name=btAgree></form>"
Answered = Callable[[Request], Response]


def shown(status: int, body: bytes = b"") -> Answered:
    return lambda request: HtmlResponse(request.url, status, body=body, request=request)


def refused_when_sent(request: Request) -> Response:
    return shown(403, b"Access Denied")(request) if request.method == "POST" else shown(200, WELCOME)(request)


class Disclaimer:
    """A site with a disclaimer, and what its identities make of it."""

    def __init__(self, folder: Path, count: int = 1) -> None:
        form = FormLoginEntry(page=PAGE, fields={"btAgree": "Agree"}, success=Sign(text="Welcome"))
        table = Identities.model_validate({"kind": "agree", "count": count, "logins_per_hour": 1000, "form": form})
        self.site = Site(name="county", hosts=("county.example",), identities=table)
        self.folder = folder
        self.answer: Answered = shown(403, b"<h1>403 Forbidden</h1>")
        self.asked = 0

    async def fetch(self, request: Request, session: Session, proxy_session: str = "") -> Response:
        self.asked += 1
        return self.answer(request)

    def pool(self) -> IdentityPool:
        assert self.site.identities.form
        form = self.site.identities.form
        made = [
            Identity(
                self.site,
                name,
                self.folder / f"{name}.json",
                None,
                lambda _, fetch: FormLogin(form, None, fetch),
                self.fetch,
                pause,
                lambda _: None,
            )
            for name in self.site.identities.names
        ]
        return IdentityPool(made, 60.0, pause)


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (shown(403, b"<h1>403 Forbidden</h1>"), Outcome.BLOCKED, "HTTP 403"),
        (shown(404, b"Not here"), Outcome.LAYOUT_CHANGED, "HTTP 404"),
        (shown(200, b"<p>Welcome to our new site"), Outcome.LAYOUT_CHANGED, "form"),
        (refused_when_sent, Outcome.BLOCKED, "HTTP 403"),
    ],
    ids=["refused", "moved", "another page", "refused when agreed to"],
)
async def test_a_request_that_meets_a_site_which_lets_nobody_in_has_its_outcome(
    tmp_path: Path, answer: Answered, outcome: Outcome, said: str
) -> None:
    site = Disclaimer(tmp_path)
    site.answer = answer
    with pytest.raises(Barred) as met:
        await site.pool().take(IdentityRequest(patient=False))
    assert met.value.verdict.outcome is outcome
    assert said in met.value.verdict.reason


@pytest.mark.parametrize("status", [503, 429])
async def test_a_site_that_may_let_in_soon_is_waited_for(tmp_path: Path, status: int) -> None:
    site = Disclaimer(tmp_path)
    site.answer = shown(status)
    with pytest.raises(Later):
        await site.pool().take(IdentityRequest(patient=False))


async def test_when_it_lets_nobody_in_again_and_again_all_requests_hear_of_it_and_it_is_asked_no_more_for_a_while(
    tmp_path: Path, hours: Clock
) -> None:
    site = Disclaimer(tmp_path)
    identities = site.pool()
    for _ in range(MIN_BARRED):
        with pytest.raises(Barred):
            await identities.take(IdentityRequest(patient=False))
        hours.ahead += 400
    hours.ahead -= 400
    asked = site.asked
    for _ in range(20):
        with pytest.raises(Barred):
            await identities.take(IdentityRequest(patient=False))
    assert site.asked == asked
    hours.ahead += 400
    site.answer = shown(200, WELCOME + b"Welcome")
    assert (await identities.take(IdentityRequest(patient=False))).session


async def test_requests_go_on_as_an_identity_that_has_a_session(tmp_path: Path, hours: Clock) -> None:
    site = Disclaimer(tmp_path, count=2)
    identities = site.pool()
    site.answer = shown(200, WELCOME + b"Welcome")
    first = await identities.take(IdentityRequest())
    site.answer = shown(403)
    for _ in range(2 * MIN_BARRED):
        identities.leave(await identities.take(IdentityRequest(patient=False)))
        hours.ahead += 400
    identities.leave(first)


async def test_another_process_knows_why_nobody_is_let_in(tmp_path: Path) -> None:
    site = Disclaimer(tmp_path)
    with pytest.raises(Barred):
        await site.pool().take(IdentityRequest(patient=False))
    state = StateFile(tmp_path / "1.json").read()
    found = barred(state)
    assert found
    assert found.outcome is Outcome.BLOCKED
    assert "HTTP 403" in found.reason
    assert "barred" in json.loads((tmp_path / "1.json").read_text())
    form = site.site.identities.form
    assert form
    logins = LimitedLogins(
        site.site, "1", None, FormLogin(form, None, site.fetch), StateFile(tmp_path / "1.json"), lambda _: None
    )
    with pytest.raises(NotNow) as again:
        await logins.session(state, None)
    assert again.value.verdict == found
