"""A site of JavaScript: its pages hold nothing until their scripts have fetched it.

`python -m tests.browser.site` serves it in a process of its own until stdin closes, and prints its address.
"""

import asyncio
import sys
from collections import Counter
from typing import Any, Self

from aiohttp import web

from tests.listening import close

ITEMS = 20
SHEETS = 8
"""Pieces of the endless page."""
LOG_IN = "<form onsubmit=\"event.preventDefault();fetch('/login',{method:'POST',body:JSON.stringify({user:user.value,word:word.value})}).then(r=>r.json()).then(d=>{localStorage.setItem('who',d.who);localStorage.setItem('token',d.token);document.body.insertAdjacentHTML('beforeend',d.who?'<p id=in>in</p>':'<p id=no>no</p>')})\"><input id=user><input id=word type=password><button id=go>go</button></form>"  # noqa: E501
_ENDLESS = """<div id=list></div><script>
let next = 0, busy = false
async function more() {
  if (busy || next === null) return
  busy = true
  const told = await (await fetch('/sheet/' + next)).json()
  for (const row of told.rows) list.insertAdjacentHTML('beforeend', '<p class=row style="height:120px">' + row + '</p>')
  next = told.next
  if (next === null) list.insertAdjacentHTML('beforeend', '<p id=last>that is all</p>')
  busy = false
  look()
}
function look() { if (innerHeight + scrollY > document.body.scrollHeight - 300) more() }
addEventListener('scroll', look)
more()
</script>"""


class JavaScriptSite:
    """`async with JavaScriptSite() as site: ...site.url...`."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.agents: set[str] = set()
        self.headers: dict[str, dict[str, str]] = {}
        self.carried: list[str] = []
        """The headers of all requests."""
        self.url = ""
        self.elsewhere = ""
        """Where /leads-away redirects to."""
        self.token = 0
        """The one that /renew takes, once."""
        self.release = asyncio.Event()
        """Lets answers to /held come."""

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, backlog=512)
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        self._listener = listener
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release.set()
        await close(self._listener)
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked[request.path] += 1
        self.agents.add(request.headers.get("User-Agent", ""))
        self.headers[request.path] = dict(request.headers)
        self.carried.append(str(request.headers))
        name, _, number = request.path.strip("/").partition("/")
        answer = getattr(self, f"_{name.replace('-', '_').partition('.')[0]}", None)
        if answer is None:
            return web.Response(status=404, text="<p>nothing is here</p>", content_type="text/html")
        result = answer(request, number)
        if asyncio.iscoroutine(result):
            result = await result
        assert isinstance(result, web.StreamResponse)
        return result

    # Pages

    def _list(self, request: web.BaseRequest, number: str) -> web.Response:
        """A list that is fetched."""
        return _page(
            f"<ul id=list></ul><img src=/picture/{number}><script src=/script></script>"
            f"<script>fill('/data/{number}')</script>"
        )

    def _script(self, request: web.BaseRequest, number: str) -> web.Response:
        text = """async function fill(url) {
          const told = await (await fetch(url)).json()
          list.innerHTML = told.items.map(item => '<li>' + item + '</li>').join('')
          list.insertAdjacentHTML('afterend', '<p id=ready>ready</p>')
        }"""
        return web.Response(text=text, content_type="text/javascript", headers={"Cache-Control": "max-age=600"})

    def _data(self, request: web.BaseRequest, number: str) -> web.Response:
        return web.json_response({"items": [f"item {number}-{place}" for place in range(ITEMS)]})

    def _sends(self, request: web.BaseRequest, number: str) -> web.Response:
        """Its script sends bytes that are no text, to an address with brackets."""
        return _page(
            "<script>fetch('/data/1?filter[kind]=a', {method: 'POST', body: new Uint8Array([0, 255])})"
            ".then(answer => answer.json()).then(() => document.body.innerHTML = '<p id=ready>ready</p>')</script>"
        )

    def _pages(self, request: web.BaseRequest, number: str) -> web.Response:
        """Its script asks for a page of a list with more rows than there are numbers for."""
        return _page(f"<script>fetch('/data/1?limit={'9' * 5000}')</script>")

    def _picture(self, request: web.BaseRequest, number: str) -> web.Response:
        return web.Response(body=b"GIF89a", content_type="image/gif")

    def _endless(self, request: web.BaseRequest, number: str) -> web.Response:
        return _page(_ENDLESS)

    def _sheet(self, request: web.BaseRequest, number: str) -> web.Response:
        place = int(number)
        rows = [f"row {place}-{row}" for row in range(10)]
        return web.json_response({"rows": rows, "next": place + 1 if place + 1 < SHEETS else None})

    def _door(self, request: web.BaseRequest, number: str) -> web.Response:
        if "key=" in request.headers.get("Cookie", ""):
            return _page("<p id=in>welcome back</p><script>document.title = localStorage.getItem('who')</script>")
        return _page(LOG_IN)

    async def _login(self, request: web.BaseRequest, number: str) -> web.Response:
        told = (
            await request.json() if isinstance(request, web.Request) else __import__("json").loads(await request.read())
        )
        if told["word"] != "open sesame":
            return web.json_response({"who": None}, status=401)
        answer = web.json_response({"who": told["user"], "token": self._next_token()})
        answer.set_cookie("key", "k1", max_age=3600)
        return answer

    def _next_token(self) -> str:
        self.token += 1
        return f"t{self.token}"

    def _renewing(self, request: web.BaseRequest, number: str) -> web.Response:
        """A web client that has its token replaced each time; its cookie is replaced with it."""
        return _page(
            "<script>fetch('/renew/' + (localStorage.getItem('token') || 't0')).then(r => r.json()).then(d => {"
            " if (d.token) localStorage.setItem('token', d.token);"
            " document.body.insertAdjacentHTML('beforeend', '<p id=told>' + d.token + '</p>') })</script>"
        )

    def _opens(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page that opens windows, of its site, of another, and of none."""
        return _page(
            f"<script>for (const url of ['/list/1', '{self.elsewhere}', '']) window.open(url)</script>"
            "<a href=/list/2 target=_blank>more</a><script>document.querySelector('a').click()</script>"
        )

    def _renew(self, request: web.BaseRequest, number: str) -> web.Response:
        if number != f"t{self.token}":
            return web.json_response({"token": None})
        answer = web.json_response({"token": self._next_token()})
        answer.set_cookie("rolling", f"r{self.token}", max_age=3600)
        return answer

    def _cookies(self, request: web.BaseRequest, number: str) -> web.Response:
        return _page(f"<p>{request.headers.get('Cookie', '')}</p>")

    def _never(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page whose list does not come."""
        return _page("<p>patience</p>")

    def _broken(self, request: web.BaseRequest, number: str) -> web.Response:
        return web.Response(status=500, text="<p>out of order</p>", content_type="text/html")

    def _json(self, request: web.BaseRequest, number: str) -> web.Response:
        return web.json_response({"plain": "<b>json</b>"})

    def _huge(self, request: web.BaseRequest, number: str) -> web.Response:
        return _page("<script>document.write('<p>' + 'x'.repeat(3 << 20) + '</p>')</script>")

    async def _long_length(self, request: web.BaseRequest, number: str) -> web.StreamResponse:
        """A page that says a length which is no number to anybody."""
        assert request.transport is not None
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {'9' * 5000}\r\nConnection: close\r\n\r\n"
        )
        request.transport.write(f"{head}<p id=ready>ready</p>".encode())
        request.transport.close()
        return web.Response()

    async def _long_text(self, request: web.BaseRequest, number: str) -> web.StreamResponse:
        """Plain text that does not say how long it is."""
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for _ in range(3):
            await answer.write(b"x" * (1 << 20))
        await answer.write_eof()
        return answer

    def _hungry(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page that takes more and more memory."""
        return _page(
            "<script>const all = []; setInterval(() => { const b = new Uint8Array(1 << 26); b.fill(7); all.push(b) },"
            " 100)</script>"
        )

    def _busy(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page whose script never ends."""
        return _page("<script>while (true) {}</script>")

    def _hangs(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page whose script never ends once its button was pressed."""
        return _page("<button id=go onclick='setTimeout(() => { while (true) {} }, 50)'>go</button>")

    async def _second(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page that is of use when it is asked for again."""
        return _page("<p id=ready>ready</p>" if self.asked[request.path] > 1 else "<p id=ready>not yet</p>")

    def _expiring(self, request: web.BaseRequest, number: str) -> web.Response:
        """A page that sends those to the gate who come for the first time."""
        if self.asked[request.path] > 1:
            return _page("<p id=ready>ready</p>")
        return web.Response(status=302, headers={"Location": "/gate"})

    def _gate(self, request: web.BaseRequest, number: str) -> web.Response:
        return _page("<p id=ready>who are you?</p>")

    def _stray(self, request: web.BaseRequest, number: str) -> web.Response:
        answer = _page("<p id=ready>ready</p>")
        answer.set_cookie("stray", "s1")
        return answer

    async def _held(self, request: web.BaseRequest, number: str) -> web.Response:
        await self.release.wait()
        return _page("<p id=ready>at last</p>")

    def _leads_away(self, request: web.BaseRequest, number: str) -> web.Response:
        return web.Response(status=302, headers={"Location": request.query_string or self.elsewhere})

    def _moved(self, request: web.BaseRequest, number: str) -> web.Response:
        return web.Response(status=302, headers={"Location": f"/list/{number}"})

    def _asks_away(self, request: web.BaseRequest, number: str) -> web.Response:
        to = request.query_string or self.elsewhere
        return _page(
            f"<link rel=preconnect href='{to}'><script>new WebSocket('{to}'.replace('http', 'ws'))</script>"
            f"<iframe src='{to}'></iframe>"
            f"<script>fetch('{to}', {{mode: 'no-cors'}}).catch(() => 0)"
            ".then(() => document.body.insertAdjacentHTML('beforeend', '<p id=ready>ready</p>'))</script>"
        )

    def _who(self, request: web.BaseRequest, number: str) -> web.Response:
        return _page(
            "<p id=who></p><script>who.textContent = JSON.stringify({agent: navigator.userAgent,"
            " width: innerWidth, touch: navigator.maxTouchPoints > 0, language: navigator.language,"
            " zone: Intl.DateTimeFormat().resolvedOptions().timeZone})</script>"
        )

    def _robots(self, request: web.BaseRequest, number: str) -> web.Response:
        return web.Response(text="User-agent: *\nDisallow: /forbidden\n")

    def _forbidden(self, request: web.BaseRequest, number: str) -> web.Response:
        return _page("<p>secret</p>")


def _page(body: str) -> web.Response:
    return web.Response(text=f"<!doctype html><html><body>{body}</body></html>", content_type="text/html")


async def main() -> None:
    async with JavaScriptSite() as site:
        print(site.url, flush=True)
        reader: Any = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()


if __name__ == "__main__":
    asyncio.run(main())
