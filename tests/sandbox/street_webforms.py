"""A site of the street built as county platforms are: ASP.NET WebForms, a disclaimer first, one session, one at a time.

GET /search/commonsearch.aspx?mode=parid leads to the disclaimer until its form is sent; then it shows the search form.
Its answer lists rows, and `Datalet.aspx?sIndex=0&idx=<row>` shows a row of the latest search of that session.
"""

import re
import secrets
from html import escape
from typing import NamedTuple
from urllib.parse import parse_qs

from tests.sandbox.street_house import Answer, Asked, House
from tests.sandbox.street_plan import HousePlan, page_of

COOKIE = "ASP.NET_SessionId"
SEARCH = "/search/commonsearch.aspx?mode=parid"
ROWS = 5
"""Parcels that a search finds at most."""
_PAGE = "<!DOCTYPE html><html><head><title>{title}</title></head><body>{body}</body></html>"
_is_parcel = re.compile(r"\d{1,9}").fullmatch


class _Session:
    """What the site remembers of a visitor."""

    def __init__(self) -> None:
        self.agreed = self.busy = False
        self.state = ""
        """The ViewState of the page shown last; no other is taken."""
        self.found: list[int] = []


class _Form(NamedTuple):
    name: str
    action: str
    inner: str


class WebFormsHouse(House):
    """Counts `overlap` when a session asks for two things at once, and `stale` for an old ViewState."""

    def __init__(self, plan: HousePlan) -> None:
        super().__init__(plan)
        self._sessions: dict[str, _Session] = {}

    def answered(self, asked: Asked) -> None:
        if session := self._sessions.get(asked.cookies.get(COOKIE, "")):
            session.busy = False

    def end_all(self) -> None:
        """Every session ends now."""
        self._sessions.clear()

    def _answer(self, asked: Asked, now: float) -> Answer:
        path, _, query = asked.path.partition("?")
        room = path.rpartition("/")[2].lower()
        if room not in ("commonsearch.aspx", "disclaimer.aspx", "datalet.aspx"):
            return super()._answer(asked, now)
        key = asked.cookies.get(COOKIE, "")
        session = self._sessions.get(key)
        if session is None:
            key, session = secrets.token_hex(12), _Session()
            self._sessions[key] = session
            return self._told(self._bounce(asked), (("Set-Cookie", f"{COOKIE}={key}; path=/; HttpOnly"),))
        if session.busy:
            return self._error("overlap", "The session is in use by another request.")
        session.busy = True
        form = {name: values[0] for name, values in parse_qs(asked.body.decode(), keep_blank_values=True).items()}
        if asked.method == "POST" and form.get("__VIEWSTATE") != session.state:
            return self._error("stale", "Validation of viewstate MAC failed.")
        if room == "disclaimer.aspx":
            return self._disclaimer(session, asked, form)
        if not session.agreed:
            return self._told(self._bounce(asked))
        if room == "commonsearch.aspx":
            return self._results(session, form) if asked.method == "POST" else self._search(session)
        return self._datalet(session, {name: values[0] for name, values in parse_qs(query).items()})

    def _told(self, answer: Answer, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
        return answer._replace(headers=answer.headers + headers, delay_s=self.plan.delay_s)

    def _bounce(self, asked: Asked) -> Answer:
        to = f"/search/Disclaimer.aspx?FromUrl=..{asked.path if asked.method == 'GET' else SEARCH}"
        return Answer(302, headers=(("Location", to),), note="bounced")

    def _error(self, note: str, said: str) -> Answer:
        body = _PAGE.format(title="Runtime Error", body=f"<h1>Server Error in '/' Application.</h1><h2>{said}</h2>")
        return Answer(500, body.encode(), "text/html", note=note)

    def _disclaimer(self, session: _Session, asked: Asked, form: dict[str, str]) -> Answer:
        to = parse_qs(asked.path.partition("?")[2]).get("FromUrl", [".." + SEARCH])[0]
        if asked.method == "POST" and form.get("btAgree"):
            session.agreed = True
            return self._told(Answer(302, headers=(("Location", to.removeprefix("..")),), note="agreed"))
        inner = (
            f'<input type="hidden" name="hdURL" value="{escape(to)}"><input type="submit" name="btAgree" value="Agree">'
        )
        return self._shown(session, "Disclaimer", _Form("Form1", asked.path, f"<p>For information only.</p>{inner}"))

    def _search(self, session: _Session) -> Answer:
        inner = (
            '<input name="inpParid"><input type="hidden" name="hdAction" value=""><input type="submit" name="btSearch">'
        )
        return self._shown(session, "Search", _Form("frmMain", SEARCH, inner))

    def _results(self, session: _Session, form: dict[str, str]) -> Answer:
        wanted = form.get("inpParid", "")
        first = int(wanted) if _is_parcel(wanted) else self.plan.pages
        session.found = list(range(first, min(first + ROWS, self.plan.pages)))
        rows = "".join(
            f'<tr class="SearchResults" onclick="javascript:selectSearchRow(\'../Datalets/Datalet.aspx?sIndex=0&amp;'
            f'idx={row}\')"><td><input type="hidden" value="JUR:{parcel}:2025"><div>{parcel}</div></td></tr>'
            for row, parcel in enumerate(session.found, 1)
        )
        body = f'<table id="searchResults">{rows}</table>' if rows else "<p>Your search did not find any records.</p>"
        return self._shown(session, "Results", _Form("frmMain", SEARCH, body))

    def _datalet(self, session: _Session, query: dict[str, str]) -> Answer:
        """By row of the latest search, or by number (`pin`)."""
        row, pin = query.get("idx", ""), query.get("pin", "")
        number = int(pin) if _is_parcel(pin) else None
        if _is_parcel(row) and 1 <= int(row) <= len(session.found):
            number = session.found[int(row) - 1]
        if number is None or number >= self.plan.pages:
            return self._shown(session, "Error", _Form("frmMain", SEARCH, "<p>No records were found.</p>"))
        self.counts["pages"] += 1
        cells = "".join(
            f'<tr><td class="DataletSideHeading">{record.id}</td><td class="DataletData">{record.value}</td></tr>'
            for record in page_of(self.plan, number).records
        )
        body = f'<td class="DataletHeaderTop">PARID: {number}</td><table id="Parcel">{cells}</table>'
        return self._shown(session, "Datalet", _Form("frmMain", SEARCH, body))

    def _shown(self, session: _Session, title: str, form: _Form) -> Answer:
        session.state = secrets.token_urlsafe(48)
        hidden = {
            "__VIEWSTATE": session.state,
            "__VIEWSTATEGENERATOR": "CA0B0334",
            "__EVENTVALIDATION": "street",
        }
        fields = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in hidden.items())
        body = f'<form name="{form.name}" method="post" action="{escape(form.action)}">{fields}{form.inner}</form>'
        return self._told(Answer(200, _PAGE.format(title=title, body=body).encode(), "text/html"))
