"""A site as people record flows on it: a county behind a disclaimer, an endless list, frames, shadow roots and windows.

Each page tells the site what is done on it, so that two programs that do one recording can be compared.
"""

import json
import time
from html import escape
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote

from aiohttp import web

from tests.browser.site import JavaScriptSite
from tests.flows import RECORDINGS

TOLD = """<script>
const told = (kind, what) => {
  const asked = new XMLHttpRequest()
  asked.open('POST', '/told', false)
  asked.send(JSON.stringify({page: location.pathname, kind, ...what}))
}
const named = event => {
  const at = event.composedPath()[0]
  return at.id || at.className || at.localName || 'window'
}
for (const kind of ['click', 'dblclick', 'auxclick']) addEventListener(kind, e => told(kind, {on: named(e)}), true)
addEventListener('input', e => told('input', {on: named(e), value: e.composedPath()[0].value}), true)
addEventListener('keydown', e => { if (e.key.length > 1) told('keydown', {on: e.key}) }, true)
addEventListener('keyup', e => { if (e.key.length > 1) told('keyup', {on: e.key}) }, true)
addEventListener('scrollend', e => told('scroll', {on: e.target.id || 'window'}), true)
addEventListener('mouseover', e => { if (e.target.dataset?.testid) told('hover', {on: e.target.dataset.testid}) })
</script>"""
SEARCH = """<form id=search method=post>
<label>Parcel Number <input id=inpParid name=parid></label>
<select id=selPageSize name=size><option>15</option><option>50</option></select></form>
<script>onkeydown = e => { if (e.key === 'Enter') { e.preventDefault(); search.submit() } }</script>"""
FEED = """<div id=list style="height:600px;overflow:auto"></div>
<input id=word type=password>
<button data-testid=industry>Industry</button><button hidden id=education style="font-size:30px">Education</button>
<div class=spinner>...</div><div style="height:5000px"></div><script>
const more = () => { for (let n = 0; n < 20; n++) list.insertAdjacentHTML('beforeend',
  '<div class=card style="height:140px"><h3>' + list.children.length + '</h3></div>') }
document.querySelector('[data-testid]').onmouseenter = () => { education.hidden = false }
list.onscroll = () => { if (list.children.length < 40) more() }
addEventListener('dblclick', () => document.querySelector('.spinner').remove())
setTimeout(more, 50)
</script>"""
WIDGETS = """<parcel-app></parcel-app><iframe src=/widgets/outer.html width=600 height=300></iframe><script>
customElements.define('search-box', class extends HTMLElement { connectedCallback() {
  this.attachShadow({mode: 'open'}).innerHTML = '<button class=submit style="width:90px">Search</button>' } })
customElements.define('parcel-app', class extends HTMLElement { connectedCallback() {
  this.attachShadow({mode: 'open'}).innerHTML = '<search-box></search-box>' } })
</script>"""
YEAR = """<label>Tax year <select name=year onchange="for (const n of [1, 2])
  bills.insertAdjacentHTML('beforeend', '<a class=bill target=_blank href=/widgets/bill.html>Bill</a> ')">
<option>2024</option><option>2025</option></select></label><p id=bills></p>"""
PDF = b"%PDF-1.4\n" + b"1 0 obj << >> endobj\n" * 50 + b"trailer << >>\n%%EOF\n"
NOBODY, NOTHING, RENAMED, BROKEN, ELSEWHERE, HALF, FORBIDDEN = "0", "00", "404-R", "503-B", "302-E", "206-H", "403-F"
"""Parcels whose pages are not as the others."""


class Told(NamedTuple):
    """What was done on a page."""

    page: str
    kind: str
    on: str
    value: str = ""


class FlowSite(JavaScriptSite):
    """`async with FlowSite() as site`."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Told] = []
        """In the order in which it was done."""
        self.asked_for: list[str] = []
        """Documents."""
        self.asked_at: list[float] = []
        """When, on the monotonic clock."""

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/told":
            self.told.append(Told(**json.loads(await request.read())))
            return web.Response(status=204)
        if request.headers.get("Sec-Fetch-Dest") in ("document", "iframe"):
            self.asked_for.append(request.path)
            self.asked_at.append(time.monotonic())
        return await super()._handle(request)

    def done(self) -> list[Told]:
        """What was done; of a text that was typed what it was in the end, and that the mouse is there once."""
        return [
            each
            for each, after in zip(self.told, [*self.told[1:], None], strict=True)
            if after is None or each.kind not in ("input", "hover") or each[:3] != after[:3]
        ]

    # The county

    async def _county(self, request: web.BaseRequest, place: str) -> web.Response:
        page = place.lower()
        if page == "search/disclaimer.aspx":
            return _page(
                "Disclaimer", "<form method=post action=/county/agree><button id=btAgree>Agree</button></form>"
            )
        if page == "agree":
            back = "/county/search/commonsearch.aspx?mode=parid"
            return web.Response(status=302, headers={"Location": back, "Set-Cookie": "DISCLAIMER=1; Path=/county"})
        if "DISCLAIMER=1" not in request.headers.get("Cookie", ""):
            to = f"/county/Search/Disclaimer.aspx?FromUrl=../{request.path_qs.removeprefix('/county/')}"
            return web.Response(status=302, headers={"Location": to})
        if page == "search/commonsearch.aspx" and request.method == "POST":
            return self._results(parse_qs((await request.read()).decode()).get("parid", [""])[0])
        if page == "search/commonsearch.aspx":
            return _page("Search", SEARCH)
        return self._parcel(page, unquote(request.query_string))

    def _results(self, parcel: str) -> web.Response:
        if parcel == NOBODY:
            return _page("Search Results", "<p>Your search did not find any records.</p>")
        if parcel == NOTHING:
            return _page("Search Results", "<p>Try another number.</p>")
        if parcel == BROKEN:
            return web.Response(status=503, text="<h1>down for maintenance</h1>", content_type="text/html")
        to = {ELSEWHERE: f"{self.elsewhere}/list/1", FORBIDDEN: "/forbidden/1"}.get(parcel)
        to = to or f"/county/datalet.aspx?{quote(parcel)}"
        row = f"<tr class=SearchResults onclick=\"location='{to}'\"><td>{escape(parcel)}</td><td>1 ELM ST</td></tr>"
        return _page("Search Results", f"<table id=searchResults><tbody>{row}</tbody></table>")

    def _parcel(self, page: str, parcel: str) -> web.Response:
        if page == "bill.pdf":
            headers = {"Content-Disposition": "attachment; filename=bill.pdf"}
            body = PDF[:-30] if parcel == HALF else PDF
            return web.Response(body=body, content_type="application/pdf", headers=headers)
        tabs = "".join(
            f"<li><a href=/county/{name}?{quote(parcel)}><span>{title}</span></a></li>" for name, title in TABS
        )
        own, data = "", ""
        if page == "taxes.aspx":
            name = "AmountDue" if parcel == RENAMED else "TaxDue"
            data = "<script>fetch('/data/1')</script>"
            bill = f"<a id=bill href=/county/bill.pdf?{quote(parcel)}>Tax bill</a>"
            due = f"<tr><td class=DataletSideHeading>Due</td><td id={name}>$1,234.50</td></tr>"
            paid = "<tr><td class=DataletSideHeading>Paid</td><td>$0.00</td></tr>"
            own = f"<h2>Annual Taxes</h2><table>{due}{paid}</table>{bill}"
        head = f"<table><tr><td class=DataletHeaderTop>{escape(parcel)}</td></tr></table>"
        return _page("Parcel", f"{head}<ul id=sidemenu>{tabs}</ul>{own}{data}")

    # Pages of scripts, frames and windows

    def _hashtags(self, request: web.BaseRequest, number: str) -> web.Response:
        return _page("Hashtags", FEED)

    def _widgets(self, request: web.BaseRequest, page: str) -> web.Response:
        frames = "<iframe src=/widgets/empty.html></iframe><iframe src=/widgets/year.html></iframe>"
        bill = "<embed type='application/pdf'>"
        pages: dict[str, str] = {
            "": WIDGETS,
            "outer.html": frames,
            "year.html": YEAR,
            "bill.html": bill,
            "empty.html": "",
        }
        return _page("Widgets", pages[page])

    def _papers(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page with half a character, and the file to which it leads, whose name has many letters of three bytes."""
        if not number:
            half = "<p id=half></p><script>half.textContent = 'half \\ud83d of a sign'</script>"
            return _page("Papers", f"<a id=paper href=/papers/1>Paper</a>{half}")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote('税' * 120)}.pdf"}
        return web.Response(body=PDF, content_type="application/pdf", headers=headers)

    def _old(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page that is another site's."""
        return web.Response(status=302, headers={"Location": f"{self.elsewhere}/list/1"})


TABS = (("profile.aspx", "Profile"), ("values.aspx", "Values"), ("taxes.aspx", "Taxes"))


def _page(title: str, body: str) -> web.Response:
    text = f"<!doctype html><html><head><title>{title}</title>{TOLD}</head><body>{body}</body></html>"
    return web.Response(text=text, content_type="text/html")


def recording(name: str, site: FlowSite, parcel: str = "") -> str:
    """One of the folder `recordings`, for a site at another address, maybe for another parcel; on one line."""
    text = (RECORDINGS / f"{name}.json").read_text("utf-8").replace("http://127.0.0.1:8000", site.url)
    return json.dumps(json.loads(text.replace("010-000123-00", parcel) if parcel else text))
