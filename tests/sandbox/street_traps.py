"""A site of the street with answers that harm who reads them without care, and one that only a browser can read."""

import gzip
from functools import cache

from tests.sandbox.street_house import NOT_FOUND, Answer, Asked, House, number_in

_JSON = b'{"records":[{"id":"trap","value":1}],"links":[]}'
BOMB_MB = 128
"""Megabytes that the bomb becomes."""


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(BOMB_MB * 1024 * 1024), 1)


TRAPS = {
    "drip": lambda: Answer(200, _JSON * 50, drip_s=1.0),
    "silent": lambda: Answer(200, _JSON, delay_s=3600.0),
    "cut": lambda: Answer(200, _JSON[:20], missing=len(_JSON) - 20),
    "short": lambda: Answer(200, _JSON, missing=-20),
    "bomb": lambda: Answer(200, _bomb(), headers=(("Content-Encoding", "gzip"),)),
    "loop": lambda: Answer(302, headers=(("Location", "/trap/loop-back"),)),
    "loop-back": lambda: Answer(302, headers=(("Location", "/trap/loop"),)),
    "header": lambda: Answer(200, _JSON, headers=(("X-Long", "x" * 200_000),)),
    "html": lambda: Answer(200, b"<!DOCTYPE html><html><body><h1>Something else</h1></body></html>", "text/html"),
    "mislabelled": lambda: Answer(200, b"<!DOCTYPE html><html><body><h1>Something else</h1></body></html>"),
    "empty": lambda: Answer(200, b""),
    "not-gzip": lambda: Answer(200, _JSON, headers=(("Content-Encoding", "gzip"),)),
    "garbage": lambda: Answer(0, raw=b"\x16\x03\x01\x00\x00 this is not HTTP\r\n\r\n"),
    "abort": lambda: Answer(0, abort=True),
}
"""At /trap/<name>."""


class TrapsHouse(House):
    """Well but for its traps."""

    def _answer(self, asked: Asked, now: float) -> Answer:
        name = asked.path.removeprefix("/trap/")
        if name == asked.path:
            return super()._answer(asked, now)
        return TRAPS[name]()._replace(note="trap") if name in TRAPS else NOT_FOUND


_SHELL = """<!DOCTYPE html><html><head><title>Page {number}</title></head><body><div id="app">Loading...</div>
<script>window.page = {number};</script><script src="/app.js"></script></body></html>"""
_SCRIPT = b"""fetch(`/api/page/${window.page}`, {headers: {"X-App": "street"}}).then(r => r.json()).then(page => {
  const app = document.getElementById("app");
  app.innerHTML = "<ul></ul>";
  for (const record of page.records) {
    const line = document.createElement("li");
    line.dataset.id = record.id;
    line.textContent = record.value;
    app.firstChild.append(line);
  }
  for (const link of page.links) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = link;
    app.append(anchor);
  }
  document.body.classList.add("ready");
});"""


class ScriptHouse(House):
    """/page/<n> is empty until its script has asked /api/page/<n>, which wants the script's own header."""

    def _answer(self, asked: Asked, now: float) -> Answer:
        if asked.path == "/app.js":
            return Answer(200, _SCRIPT, "text/javascript")
        number = number_in(asked.path, "/api/page/")
        if number is None:
            return super()._answer(asked, now)
        if asked.headers.get("x-app") != "street":
            return Answer(403, b'{"error":"Forbidden"}')
        return super()._page_answer(number, asked, now)

    def _page_answer(self, number: int, asked: Asked, now: float) -> Answer:
        if number >= self.plan.pages:
            return NOT_FOUND
        return Answer(200, _SHELL.format(number=number).encode(), "text/html")
