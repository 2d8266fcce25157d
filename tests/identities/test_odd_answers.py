"""An answer to a login that is as no site should give it costs a login, and never the page for which it was made."""

import time
from base64 import urlsafe_b64encode

import pytest
from pydantic import SecretStr
from scrapy import Request
from scrapy.http import HtmlResponse, JsonResponse, Response

from harvester.identities.credentials import Credentials
from harvester.identities.form import FormLogin
from harvester.identities.login_methods import LoginFailed, refuses, shows
from harvester.identities.state import Session
from harvester.identities.token import TokenLogin
from harvester.sites.agreements import _STATEMENT
from harvester.sites.identities import FormLoginEntry, Sign, TokenLoginEntry

ANN = Credentials("COUNTY", "ann", SecretStr("correct-horse-1"))
URL = "https://county.example/token"


def jwt(claims: bytes) -> bytes:
    return b"a." + urlsafe_b64encode(claims).rstrip(b"=") + b".c"


async def token_of(body: bytes, life: str = "life") -> Session:
    async def fetch(request: Request, session: Session) -> Response:
        return Response(request.url, body=body, request=request)

    call = TokenLoginEntry(url=URL, body={"name": "{user}"}, token="token", expires_in=life)
    return await TokenLogin(call, ANN, fetch).sign_in(None)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"token": "t\xff"}',
        b'{"token": "t1\\r\\nX-Other: 1", "life": 60}',
        b'{"token": "t\\ud800", "life": 60}',
    ],
    ids=["too deep", "no UTF-8", "two lines", "half a character"],
)
async def test_an_answer_without_a_token_that_can_be_sent_is_a_login_that_failed(body: bytes) -> None:
    with pytest.raises(LoginFailed, match="no token"):
        await token_of(body)


@pytest.mark.parametrize("life", [b"1e999", b"NaN", b"9" * 400])
async def test_a_token_that_is_good_for_no_time_that_can_be_is_used_until_it_is_refused(life: bytes) -> None:
    assert (await token_of(b'{"token": "t1", "life": %s}' % life)).renew_at == 0.0
    claims = jwt(b'{"iat": 0, "exp": %s}' % life)
    assert (await token_of(b'{"token": "%s"}' % claims, life="")).renew_at == 0.0


async def test_a_token_whose_claims_are_too_deep_is_used_until_it_is_refused() -> None:
    assert (await token_of(b'{"token": "%s"}' % jwt(b"[" * 200_000), life="")).renew_at == 0.0
    assert (await token_of(b'{"token": "%s"}' % jwt(b'{"iat": 5, "exp": 3605}'), life="")).renew_at > time.time()


async def sent_form(page: Response) -> bytes:
    """What the form of a page is sent with. Raises LoginFailed."""
    sent: list[bytes] = []

    async def fetch(request: Request, session: Session) -> Response:
        if request.method == "POST":
            sent.append(request.body)
        return page.replace(request=request)

    form = FormLoginEntry(page=page.url, fields={"name": "{user}"}, success=Sign(status=(200,)))
    await FormLogin(form, ANN, fetch).sign_in(None)
    return sent[0]


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (JsonResponse(URL, body=b'{"error": "busy"}'), "form"),
        (HtmlResponse(URL, body=b"<form method=post action='http://[x'></form>"), "address"),
        (HtmlResponse(URL, body=b"<form method=post action='javascript:go()'></form>"), "address"),
    ],
    ids=["JSON", "brackets", "script"],
)
async def test_a_page_whose_form_cannot_be_sent_is_a_login_that_failed(page: Response, said: str) -> None:
    with pytest.raises(LoginFailed, match=said):
        await sent_form(page)


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("utf-8", b"old=%C3%BC&name=ann"),
        ("iso-8859-1", b"old=%FC&name=ann"),
        ("utf-16", b"old=%C3%BC&name=ann"),
    ],
)
async def test_a_form_is_sent_in_the_encoding_of_its_page(encoding: str, sent: bytes) -> None:
    text = "<html><head></head><form method=post><input name=old value='\u00fc'></form></html>"
    assert await sent_form(HtmlResponse(URL, body=text.encode(encoding), encoding=encoding)) == sent


@pytest.mark.timeout(60)
def test_a_page_of_a_login_is_looked_through_in_bounded_time() -> None:
    """What backtracks would take minutes."""
    page = HtmlResponse(URL, body=b"<input " * 60_000, encoding="utf-8")
    assert not refuses(Sign(), page)
    assert not shows(Sign(text=_STATEMENT), page, None)
    again = HtmlResponse(URL, body=b"<p><input name=a><INPUT name='b' TYPE=\"password\">", encoding="utf-8")
    assert refuses(Sign(), again)
    button = HtmlResponse(URL, body=b"<p><input type=submit value='I have read it'>", encoding="utf-8")
    assert shows(Sign(text=_STATEMENT), button, None)
