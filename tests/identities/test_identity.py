"""What one identity promises its callers, in this process, against the county."""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout
from pydantic import SecretStr
from scrapy import Request

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.identities.browser import BrowserLogin
from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.form import FormLogin
from harvester.identities.identity import Identity
from harvester.identities.limited_logins import NotNow
from harvester.identities.login_methods import Fetch, LoginFailed, LoginMethod, LoginRefused
from harvester.identities.logins import Logins
from harvester.identities.state import Session
from harvester.identities.token import TokenLogin
from harvester.internal_meta import LOGIN, LOGIN_SITE
from harvester.outcomes import Outcome
from harvester.sites import Registry, Site
from tests.identities.county import County
from tests.identities.entries import FORM, TOKEN, read
from tests.identities.without_crawl import Clock, fetch, pause

ANN = Credentials("COUNTY", "ann", SecretStr("correct-horse-1"))
WRONG = Credentials("COUNTY", "ann", SecretStr("wrong-horse"))


def method(site: Site, credentials: Credentials, proxy_session: str, fetch: Fetch) -> LoginMethod:
    table = site.identities
    if table.form:
        return FormLogin(table.form, credentials, fetch)
    assert table.token
    return TokenLogin(table.token, credentials, fetch)


class Made:
    """Makes identities of the county."""

    def __init__(self, county: County, folder: Path) -> None:
        self._county = county
        self._folder = folder
        self.events: Counter[str] = Counter()

    def __call__(self, entry: str, more: str = "", credentials: Credentials = ANN) -> Identity:
        site = read(self._county, entry, more)
        return Identity(
            site,
            "COUNTY",
            self._folder / "sessions" / "county.COUNTY.json",
            credentials,
            partial(method, site, credentials),
            fetch,
            pause,
            lambda event: self.events.update([event]),
        )


@pytest.fixture
def made(county: County, tmp_path: Path) -> Made:
    return Made(county, tmp_path)


CHECK = """[county.identities.check]
url = "{url}/who"
success = {{ text = '"in": true' }}
"""


async def test_thousand_callers_share_one_login(county: County, made: Made) -> None:
    identity = made(FORM)
    sessions = await asyncio.gather(*[identity.ready() for _ in range(1000)])
    assert len({session.generation for session in sessions}) == len(county.logins) == 1
    assert [identity.expire(sessions[0].generation) for _ in range(1000)].count(True) == 1
    sessions = await asyncio.gather(*[identity.ready() for _ in range(1000)])
    assert len({session.generation for session in sessions}) == 1
    assert len(county.logins) == 2


async def test_wrong_password_is_tried_once_by_all_callers_and_processes(
    county: County, made: Made, clock: Clock
) -> None:
    identity = made(FORM, credentials=WRONG)
    told = await asyncio.gather(*[identity.ready() for _ in range(100)], return_exceptions=True)
    told += await asyncio.gather(made(FORM, credentials=WRONG).ready(), return_exceptions=True)
    assert {type(error) for error in told} == {LoginRefused}
    assert "HARVESTER_SESSION_COUNTY_PASSWORD" in str(told[0])
    assert "wrong-horse" not in str(told)
    assert county.logins == [("ann", False)]
    clock.ahead = 601.0
    with pytest.raises(LoginRefused):
        await made(FORM, credentials=WRONG).ready()
    assert len(county.logins) == 2
    assert await made(FORM).ready()


async def test_login_without_an_answer_is_tried_again_later_and_is_no_wrong_password(
    county: County, made: Made, clock: Clock
) -> None:
    county.down = 3
    identity = made(FORM)
    waits = []
    for _ in range(3):
        with pytest.raises(NotNow) as refusal:
            await identity.ready()
        waits.append(refusal.value.until - clock.time())
        with pytest.raises(NotNow):
            await identity.ready()  # too early: nobody is asked
        with pytest.raises(NotNow):
            await made(FORM).ready()  # another process neither
        clock.ahead += waits[-1] + 0.1
    assert county.count("/Login.aspx") == 3 * 2
    assert waits[0] < waits[2]
    assert await identity.ready()
    assert identity.ended is None


async def test_a_server_has_a_login_wait_as_long_as_it_says_and_no_longer_than_a_day(
    made: Made, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    asked = [1e12, 7200.0]

    async def sign_in(_: Session | None) -> Session:
        raise LoginFailed("HTTP 429", asked.pop())

    identity = made(FORM)
    monkeypatch.setattr(identity._logins._method, "sign_in", sign_in)
    for waited_s in (7200.0, 86_400.0):
        with pytest.raises(NotNow) as later:
            await identity.ready()
        assert waited_s - 60 < later.value.until - clock.time() <= waited_s
        clock.ahead += waited_s + 1


@pytest.mark.parametrize("happened", ["refused", "failed", "many logins", "rest", "chain"])
async def test_what_was_kept_while_the_clock_was_years_ahead_holds_nobody_back(
    happened: str, county: County, made: Made, clock: Clock
) -> None:
    entry = FORM.replace("logins_per_hour = 20", "logins_per_hour = 1")
    clock.ahead = 3e8
    identity = made(entry, "serial = true", WRONG if happened == "refused" else ANN)
    county.down = 1 if happened == "failed" else 0
    with suppress(NotNow, LoginRefused):
        await identity.ready()
    if happened == "rest":
        while not identity.health.bad(Outcome.BLOCKED, clock.time()):
            pass
        identity.save()
    elif happened == "chain":
        assert identity.begin("c", clock.time())
        identity.end("c", clock.time())
    if happened == "many logins":
        identity.expire((await identity.ready()).generation)
        identity.save()
    clock.ahead = 0.0
    again = made(entry, "serial = true", WRONG if happened == "refused" else ANN)
    assert again.free_at(clock.time()) <= clock.time()
    with suppress(LoginRefused):
        await again.ready()
    assert again.begin("d", clock.time())
    again.give_back()
    assert len(county.logins) == (1 if happened in ("failed", "rest", "chain") else 2)


async def test_logins_are_limited_to_so_many_in_an_hour(county: County, made: Made, clock: Clock) -> None:
    entry = FORM.replace("logins_per_hour = 20", "logins_per_hour = 3")
    identity = made(entry)
    for _ in range(3):
        identity.expire((await identity.ready()).generation)
    with pytest.raises(NotNow) as refusal:
        await identity.ready()
    assert refusal.value.until - clock.time() > 3500
    other = made(entry)
    other.expire((await other.ready()).generation)  # it may try the kept session, and no more
    with pytest.raises(NotNow):
        await other.ready()
    assert len(county.logins) == 3
    clock.ahead = 3700.0
    assert await identity.ready()


async def test_token_is_refreshed_before_it_ends_and_had_anew_when_that_is_refused(
    county: County, made: Made, clock: Clock
) -> None:
    identity = made(TOKEN)
    first = await identity.ready()
    assert first.headers["Authorization"].startswith("Bearer ")
    clock.ahead = 3600.0 - 50
    second = await identity.ready()
    assert second.headers != first.headers
    assert (len(county.logins), county.refreshes) == (1, 1)
    county.forget_refresh_tokens()
    clock.ahead += 3600.0
    assert (await identity.ready()).headers != second.headers
    assert (len(county.logins), county.refreshes) == (2, 2)


async def test_kept_session_is_checked_before_its_first_use_and_then_by_time(
    county: County, made: Made, clock: Clock
) -> None:
    more = CHECK.format(url=county.url)
    await made(FORM, more).ready()
    assert county.checks == 0
    identity = made(FORM, more)
    first = await identity.ready()
    await identity.ready()
    assert (county.checks, len(county.logins)) == (1, 1)
    clock.ahead = 301.0
    await identity.ready()
    assert (county.checks, len(county.logins)) == (2, 1)
    county.expire()
    clock.ahead = 602.0
    assert (await identity.ready()).generation != first.generation
    assert (county.checks, len(county.logins)) == (3, 2)


async def test_session_of_another_process_is_taken_over(county: County, made: Made) -> None:
    one, other = made(FORM), made(FORM)
    first = await one.ready()
    assert (await other.ready()).generation == first.generation
    one.expire(first.generation)
    second = await one.ready()
    assert (await other.ready()).generation == second.generation
    assert not other.expire(first.generation)  # an answer that comes late
    assert len(county.logins) == 2


async def test_what_a_browser_made_of_a_session_is_kept_unless_it_ended_or_another_login_replaced_it(
    county: County, made: Made, tmp_path: Path
) -> None:
    cookie = {"name": "rolling", "value": "r1", "domain": "127.0.0.1", "path": "/"}
    written: list[str] = []

    def keep(identity: Identity, generation: str) -> bool:
        def write() -> bool:
            written.append(generation)
            return True

        return identity.keep_storage(generation, {"cookies": [cookie]}, write)

    one, other = made(FORM), made(FORM)
    first = await one.ready()
    assert keep(one, first.generation)
    assert (await other.ready()).jar.has("rolling"), "other processes get the cookies"
    other.expire(first.generation)
    assert not keep(other, first.generation)
    second = await other.ready()
    assert not keep(one, first.generation), "the newest login wins"
    assert not second.jar.has("rolling")
    assert written == [first.generation]
    assert keep(one, second.generation), "it has taken over the newer one"
    with FileLock(tmp_path / "sessions" / "county.COUNTY.json.lock", thread_local=False), pytest.raises(Timeout):
        keep(one, second.generation)
    cookie["name"] = "last"
    serial = partial(made, FORM, "serial = true")
    alone = serial()
    session = await alone.ready()
    assert alone.begin("c", time.time())
    assert keep(alone, session.generation)
    assert not (await serial().ready()).jar.has("last"), "the request under way keeps it"
    alone.give_back()
    assert keep(alone, session.generation)
    assert (await serial().ready()).jar.has("last")


async def test_keeping_cookies_forgets_nothing_that_another_process_has_written(county: County, made: Made) -> None:
    one, other = made(FORM), made(FORM)
    session = await one.ready()
    assert await other.ready()
    county.down = 1
    other.expire(session.generation)
    with pytest.raises(NotNow):
        await other.ready()
    one.save()
    third = made(FORM)
    third.expire((await third.ready()).generation)
    with pytest.raises(NotNow):
        await third.ready()
    assert len(county.logins) == 1


async def test_file_that_cannot_be_read_is_as_good_as_none(county: County, made: Made, tmp_path: Path) -> None:
    await made(FORM).ready()
    damaged = (
        b"",
        b"{",
        b"\xff",
        b"[]",
        b'{"proxy_session": "\xff"}',
        b'{"proxy_session": "a", "x": ' + b"[" * 100_000,
    )
    lacking = b'{"proxy_session": "a", "generation": "b", "cookies": [{"name": "c", "value": "d"}]}'
    for content in (*damaged, lacking):
        (tmp_path / "sessions" / "county.COUNTY.json").write_bytes(content)
        assert await made(FORM).ready()
    assert len(county.logins) == 8


async def test_page_without_the_form_says_nothing_of_the_password(county: County, made: Made) -> None:
    with pytest.raises(NotNow, match="form"):
        await made(FORM.replace('css = "#main"', 'css = "#other"')).ready()
    assert county.logins == []


async def test_password_is_not_sent_by_a_form_that_would_put_it_into_the_address(county: County, made: Made) -> None:
    with pytest.raises(NotNow, match="password"):
        await made(FORM.replace("{url}/Login.aspx", "{url}/Open.aspx")).ready()
    assert county.count("/Login.aspx") == 0


async def test_browser_login_without_a_browser_says_what_is_missing(tmp_path: Path) -> None:
    crawler: Any = Clock()
    with pytest.raises(UsageError, match="browser extra"):
        BrowserLogin(crawler, Registry().named("county"), ANN, "", tmp_path / "state.json")


async def test_browser_login_keeps_what_playwright_can_read(county: County, tmp_path: Path) -> None:
    """The browser here is none, but its answer is as Playwright's."""
    import json

    from harvester.components import get_component
    from harvester.identities.browser import BrowserLink

    class Crawl:
        pass

    crawler: Any = Crawl()
    cookie = {"name": "sid", "value": "x1", "domain": ".example.org", "path": "/", "expires": -1.0}
    cookie |= {"httpOnly": True, "secure": True, "sameSite": "Lax"}
    state = {"cookies": [cookie], "origins": [{"origin": "https://example.org", "localStorage": []}]}

    given: list[Any] = []

    async def sign_in(site: Site, credentials: Credentials, **more: Any) -> dict[str, Any]:
        given.append(more["storage_state"])
        if len(given) == 2:
            raise LoginFailed("no field was found on the page")
        return state

    get_component(crawler, BrowserLink).sign_in = sign_in
    path = tmp_path / "state.json"
    login = BrowserLogin(crawler, Registry().named("county"), ANN, "", path)
    session = await login.sign_in(None)
    assert json.loads(path.read_text()) == state
    assert path.stat().st_mode & 0o777 == 0o600
    assert session.jar.kept() == [cookie]
    request = Request("https://www.example.org/")
    session.jar.put_on(request)
    assert request.headers["Cookie"] == b"sid=x1"
    with pytest.raises(LoginFailed):
        await login.sign_in(session)
    await login.sign_in(session)
    await login.sign_in(session)
    assert given == [None, state, None, state], "a login that failed begins afresh the next time"


def test_request_of_a_login_goes_nowhere_else_and_not_in_the_clear() -> None:
    crawler: Any = None
    logins = Logins(crawler, Config(allow_private_hosts=False))
    registry = Registry([Site(name="county", hosts=("county.example",)), Site(name="other", hosts=("other.example",))])

    def check(url: str, origin: str = "") -> None:
        session = Session(Jar(), {}, origin=origin)
        logins.check(Request(url, meta={LOGIN_SITE: "county", LOGIN: session}), registry.of(url))

    check("https://county.example/Login.aspx")
    with pytest.raises(UsageError, match="https"):
        check("http://county.example/Login.aspx")
    for url in ("https://other.example/Login.aspx", "https://county.example.evil.example/"):
        with pytest.raises(LoginFailed, match="hosts"):
            check(url)
    own = "https://county.example"
    check(f"{own}/Login.aspx", own)
    check("https://other.example/Login.aspx", "https://other.example")
    for url in ("https://other.example/Login.aspx", "https://county.example:8443/", "http://county.example/"):
        with pytest.raises(LoginFailed, match="hosts"):
            check(url, own)
