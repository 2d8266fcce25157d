"""Login by a form of a page, including WebForms. Also accepts a disclaimer, by a form without a password."""

from urllib.parse import urlencode, urljoin, urlsplit, urlunsplit

from scrapy import Request
from scrapy.http import JsonResponse, Response, TextResponse

from harvester.exceptions import NotAccepted
from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.login_methods import (
    Fetch,
    LoginFailed,
    LoginRefused,
    check_answered,
    fill,
    refuses,
    shows,
)
from harvester.identities.state import Session
from harvester.masking import mask
from harvester.sites.identities import FormLoginEntry


class FormLogin:
    """Gets the page, fills in the form, sends it with all hidden fields (ViewState), and checks the response."""

    def __init__(self, form: FormLoginEntry, credentials: Credentials | None, fetch: Fetch) -> None:
        self._form = form
        self._credentials = credentials
        self._fetch = fetch

    async def sign_in(self, old: Session | None) -> Session:
        session = Session(Jar(), {})
        page = await self._fetch(Request(self._form.page, dont_filter=True), session)
        check_answered(page)
        if shows(self._form.statement, page, session.jar):
            raise NotAccepted(
                f"{self._form.page} shows a statement to be agreed to, and nobody has accepted it. Read it. If you may"
                " agree to it, say so with `disclaimer` in the site's entry: see docs/counties.md."
            )
        answer = await self._fetch(self._filled(page), session)
        check_answered(answer)
        if shows(self._form.success, answer, session.jar):
            return session
        said = f"HTTP {answer.status} at {urlsplit(answer.url).path}"
        if self._credentials and refuses(self._form.refused, answer):
            raise LoginRefused(said)
        raise LoginFailed(f"the answer bears no sign of success: {said}", answer=None if self._credentials else answer)

    def _filled(self, page: Response) -> Request:
        has_forms = isinstance(page, TextResponse) and not isinstance(page, JsonResponse)
        found = page.css(self._form.css) if has_forms else ()
        form = next((each.root for each in found if each.root.tag == "form"), None)
        if form is None:
            said = f"answers HTTP {page.status} without a form" if page.status >= 400 else "has no form"
            raise LoginFailed(f"{self._form.page} {said} {self._form.css!r}", answer=page)
        own = {name: fill(value, self._credentials) for name, value in self._form.fields.items()}
        values = [(name, value) for name, value in form.form_values() if name not in own]
        mask.add_passing(*(value for _, value in values))
        body = urlencode([*values, *own.items()], encoding=_encoding_of(page), errors="xmlcharrefreplace")
        if form.method == "GET" and self._credentials:
            raise LoginFailed(f"the form of {self._form.page} would send the password in its address")
        try:
            address = urljoin(page.url, (form.action or "").strip() or page.url)
            if form.method == "GET":
                return Request(urlunsplit(urlsplit(address)._replace(query=body)), dont_filter=True)
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return Request(address, method="POST", body=body, headers=headers, dont_filter=True)
        except ValueError:
            raise LoginFailed(f"the form of {self._form.page} is sent to what is no address") from None


def _encoding_of(page: Response) -> str:
    """Returns the encoding that browsers send the form of a page in."""
    encoding = page.encoding if isinstance(page, TextResponse) else "utf-8"
    return "utf-8" if encoding.startswith("utf-16") else encoding
