"""A site for Scrapy's features: it answers with what it was asked, sets cookies, redirects, and links its pages."""

import json
from typing import Any

from aiohttp import encode_basic_auth, web

ASKED = web.AppKey("asked", set[str])
"""Who has asked for the unsteady page."""
HOME = '<title>home</title><a href="/a">a</a><a href="/b">b</a><a href="http://other.test/">elsewhere</a>'
FORM = (
    '<form action="/echo" method="post"><input name="hidden" value="h"><input name="user"><input name="password">'
    '<input type="submit" name="go" value="1"></form>'
)
FEED = "<?xml version='1.0'?><all><item><id>1</id></item><item><id>2</id></item></all>"
TABLE = "id,name\n1,one\n2,two\n"


async def echo(request: web.Request) -> web.Response:
    """Answers with method, query, form, body, cookies and some headers of the request."""
    form = dict(await request.post()) if request.content_type.startswith("application/x-www-form") else {}
    names = ("X-Own", "User-Agent", "Accept-Language", "Content-Type")
    found: dict[str, Any] = {
        "method": request.method,
        "query": dict(request.query),
        "form": {name: str(value) for name, value in form.items()},
        "body": "" if form else (await request.read()).decode(),
        "cookies": dict(sorted(request.cookies.items())),
        "headers": {name: request.headers[name] for name in names if name in request.headers},
    }
    return web.json_response(found)


async def page(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    following = {"a": "c", "b": "c", "c": "d", "d": "a"}.get(name, "a")
    return html(f'<title>{name}</title><p class="x">1</p><p class="x"> 2 </p><a href="/{following}#part">next</a>')


async def login(request: web.Request) -> web.Response:
    answer = html(FORM)
    answer.set_cookie("session", request.query.get("who", "ann"))
    return answer


async def private(request: web.Request) -> web.Response:
    if request.headers.get("Authorization") != encode_basic_auth("ann", "secret"):
        return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})
    return html("<title>private</title>")


async def unsteady(request: web.Request) -> web.Response:
    """Fails the first time that somebody asks."""
    asked = request.app[ASKED]
    who = request.query.get("who", "")
    if who in asked:
        return html("<title>steady</title>")
    asked.add(who)
    return web.Response(status=503)


async def status(request: web.Request) -> web.Response:
    return web.Response(
        status=int(request.match_info["status"]), text="<title>status</title>", content_type="text/html"
    )


async def encoded(request: web.Request) -> web.Response:
    return web.Response(
        body="<title>Ä€</title>".encode("cp1252"), headers={"Content-Type": "text/html; charset=cp1252"}
    )


async def zipped(request: web.Request) -> web.Response:
    answer = html("<title>zipped</title>" * 50)
    answer.enable_compression(web.ContentCoding.gzip)
    return answer


async def sitemap(request: web.Request) -> web.Response:
    root = f"http://{request.host}"
    places = "".join(f"<url><loc>{root}/{name}</loc></url>" for name in "ab")
    return web.Response(text=f"<?xml version='1.0'?><urlset>{places}</urlset>", content_type="text/xml")


async def robots(request: web.Request) -> web.Response:
    return web.Response(text=f"User-agent: *\nDisallow: /denied\nSitemap: http://{request.host}/sitemap.xml\n")


def html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


def redirect(to: str) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": to})

    return answer


def fixed(text: str, kind: str = "text/html") -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=text, content_type=kind)

    return answer


def make_app() -> web.Application:
    app = web.Application()
    app[ASKED] = set()
    app.router.add_route("*", "/echo", echo)
    for path, answer in {
        "/": fixed(HOME),
        "/login": login,
        "/private": private,
        "/unsteady": unsteady,
        "/status/{status}": status,
        "/encoded": encoded,
        "/zipped": zipped,
        "/sitemap.xml": sitemap,
        "/robots.txt": robots,
        "/feed.xml": fixed(FEED, "text/xml"),
        "/feed.csv": fixed(TABLE, "text/csv"),
        "/denied": fixed("<title>denied</title>"),
        "/moved": redirect("/a"),
        "/moved-twice": redirect("/moved"),
        "/refresh": fixed('<meta http-equiv="refresh" content="0; url=/b">'),
        "/json": fixed(json.dumps({"rows": [{"n": 1}, {"n": 2}]}), "application/json"),
        "/{name:[a-z]}": page,
    }.items():
        app.router.add_get(path, answer)
    return app
