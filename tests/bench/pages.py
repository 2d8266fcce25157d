"""A local server of pages of 100 posts, all different, made from one page of the sandbox's network.

    python -m tests.bench.pages <pages of each account>

Prints its port. It answers getProfiles and getAuthorFeed, the latter from memory but for the names in it, so that
it costs little beside the crawler that is measured.
"""

import asyncio
import sys
import urllib.request
from typing import Any
from urllib.parse import parse_qs

import msgspec
import uvloop
from aiohttp import web

from tests.sandbox.process import Sandbox

POSTS = 100
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def did_of(account: int) -> str:
    """The DID of an account of this server."""
    return "did:plc:" + "".join(ALPHABET[account >> shift & 31] for shift in range(0, 120, 5))


def template() -> bytes:
    """One feed page with 100 posts, no reposts; `@@` stands before each post's record key, the author is `##`."""
    with Sandbox(accounts=200, seed=3, posts=400, forked=False) as site:
        items: list[dict[str, Any]] = []
        cursor = ""
        while len(items) < POSTS:
            url = f"{site.url}/xrpc/app.bsky.feed.getAuthorFeed?actor={site.did(0)}&limit=100{cursor}"
            page = msgspec.json.decode(urllib.request.urlopen(url).read())
            items += [item for item in page["feed"] if "reason" not in item]
            cursor = f"&cursor={page['cursor']}"
        author = site.did(0).encode()
    for item in items:
        item["post"]["uri"] = item["post"]["uri"].replace("/app.bsky.feed.post/", "/app.bsky.feed.post/@@")
    return msgspec.json.encode(items[:POSTS]).replace(author, b"##")


def application(pages: int) -> web.Application:
    """The server."""
    feed = template()
    profile = (
        b'{"did":"%s","handle":"h%d.example","displayName":"N","followersCount":1,"followsCount":1,"postsCount":1}'
    )

    async def profiles(request: web.Request) -> web.Response:
        asked = parse_qs(request.query_string)["actors"]
        body = b",".join(profile % (did.encode(), number) for number, did in enumerate(asked))
        return web.Response(body=b'{"profiles":[' + body + b"]}", content_type="application/json")

    async def author_feed(request: web.Request) -> web.Response:
        page = int(request.query.get("cursor", "0"))
        cursor = b',"cursor":"%d"' % (page + 1) if page + 1 < pages else b""
        body = feed.replace(b"##", request.query["actor"].encode()).replace(b"@@", b"p%d-" % page)
        return web.Response(body=b'{"feed":' + body + cursor + b"}", content_type="application/json")

    async def robots(request: web.Request) -> web.Response:
        return web.Response(text="User-agent: *\nAllow: /\n")

    app = web.Application()
    app.router.add_get("/xrpc/app.bsky.actor.getProfiles", profiles)
    app.router.add_get("/xrpc/app.bsky.feed.getAuthorFeed", author_feed)
    app.router.add_get("/robots.txt", robots)
    return app


async def serve(pages: int) -> None:
    runner = web.AppRunner(application(pages), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
