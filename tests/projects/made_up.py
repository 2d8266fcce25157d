"""Pages for addresses of which a project saved none: made up by the address, so that both sides get the same."""

import io
import json
import zipfile
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

_AUTHORS = ("Albert Einstein", "Jane Austen", "Steve Martin")
_PAGES = 3
"""Pages of a list."""
_PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n%%EOF\n"


def made_up(url: str) -> web.Response:
    """The answer for an address: of what kind is told by its path."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", parts.path.lower()
    if host == "quotes.toscrape.com":
        return _html(_quotes(path))
    if host == "books.toscrape.com":
        return _html(_books(path))
    if path.endswith(".pdf"):
        return web.Response(body=_PDF, headers={"Content-Type": "application/pdf"})
    if path.endswith((".zip", ".gz")):
        return web.Response(body=_zip(url), headers={"Content-Type": "application/zip"})
    if "sitemap" in path or path.endswith(".xml"):
        return web.Response(text=_sitemap(f"{parts.scheme}://{host}"), content_type="application/xml")
    if (
        path.endswith((".json", ".geojson"))
        or "api" in url.lower()
        or "json" in parse_qs(parts.query).get("format", [])
    ):
        return web.json_response(_release_package(url))
    return _html(_page(f"{parts.scheme}://{host}", path))


def _html(body: str) -> web.Response:
    text = f"<!DOCTYPE html><html><head><title>Page</title></head><body>{body}</body></html>"
    return web.Response(text=text, content_type="text/html")


def _number(path: str) -> int:
    """Of the page of a list."""
    digits = "".join(letter for letter in path.rstrip("/").rpartition("/")[2] if letter.isdigit())
    return int(digits[:3] or 1)


def _quotes(path: str) -> str:
    """As quotes.toscrape.com writes them: ten a page, with an author's page each."""
    if path.startswith("/author/"):
        name = path.strip("/").rpartition("/")[2].replace("-", " ").title()
        return (
            f'<h3 class="author-title">{name}</h3><p>Born: <span class="author-born-date">March 14, 1879</span>'
            f' <span class="author-born-location">in Ulm</span></p><div class="author-description">{name} wrote.</div>'
        )
    page = _number(path)
    quotes = "".join(
        f'<div class="quote"><span class="text">“Quote {page}.{each} – ü”</span><span>by <small class="author">{author}'
        f'</small> <a href="/author/{author.replace(" ", "-")}">(about)</a></span><div class="tags">'
        f'<a class="tag" href="/tag/life/page/1/">life</a><a class="tag" href="/tag/love/page/1/">love</a></div></div>'
        for each in range(10)
        for author in [_AUTHORS[each % len(_AUTHORS)]]
    )
    more = f'<li class="next"><a href="/page/{page + 1}/">Next</a></li>' if page < _PAGES else ""
    return f'{quotes}<nav><ul class="pager">{more}</ul></nav>'


def _books(path: str) -> str:
    """As books.toscrape.com writes them."""
    if "/catalogue/book-" in path:
        name = path.split("/")[2]
        return (
            '<ul class="breadcrumb"><li><a href="/">Home</a></li><li><a href="/">Books</a></li><li>'
            f'<a href="/">Travel</a></li><li class="active">{name}</li></ul><div class="product_main"><h1>{name}</h1>'
            '<p class="price_color">£51.77</p><p class="instock availability">In stock</p></div>'
            '<div id="product_description"><h2>Text</h2></div>'
            f"<p>What {name} tells.</p><table><tr><th>UPC</th><td>a{name}</td></tr></table>"
        )
    page = _number(path)
    books = "".join(
        f'<article class="product_pod"><h3><a href="/catalogue/book-{page}-{each}/index.html" title="Book {each}">Book'
        f'</a></h3><div class="product_price"><p class="price_color">£{each}.99</p></div></article>'
        for each in range(6)
    )
    more = f'<li class="next"><a href="/catalogue/page-{page + 1}.html">next</a></li>' if page < _PAGES else ""
    return f'<section><ol class="row">{books}</ol><ul class="pager">{more}</ul></section>'


def _zip(url: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("release.json"), json.dumps(_release_package(url)))
    return file.getvalue()


def _sitemap(root: str) -> str:
    places = "".join(f"<url><loc>{root}/stores/{each}</loc></url>" for each in range(1, 4))
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>'


def _release_package(url: str) -> dict[str, object]:
    """A package of the Open Contracting Data Standard, as its publishers send them."""
    release = {
        "ocid": "ocds-213czf-1",
        "id": "1",
        "date": "2024-01-01T00:00:00Z",
        "tag": ["tender"],
        "initiationType": "tender",
        "buyer": {"name": "Município"},
    }
    return {"uri": url, "version": "1.1", "publishedDate": "2024-01-01T00:00:00Z", "releases": [release]}


def _page(root: str, path: str) -> str:
    """A page with a table, a form, a place in JSON-LD; a page near the root has links to others."""
    links = ""
    if path.count("/") < 2:
        links = "".join(f'<li><a href="{root}{path.rstrip("/")}/p/{each}">Page {each}</a></li>' for each in (1, 2))
    place = {
        "@context": "https://schema.org",
        "@type": "LocalBusiness",
        "name": f"Place {path}",
        "url": f"{root}{path}",
        "telephone": "+1 207 555 0100",
        "address": {"@type": "PostalAddress", "streetAddress": "1 Main St", "addressLocality": "Bath"},
        "geo": {"@type": "GeoCoordinates", "latitude": 43.9, "longitude": -69.8},
    }
    return (
        f'<script type="application/ld+json">{json.dumps(place)}</script><h1>{path}</h1><ul>{links}</ul>'
        '<table><tr><th>Date</th><th>File</th></tr><tr><td>01/02/2024</td><td><a href="/file.pdf">Agenda</a></td></tr>'
        '</table><form action="/search" method="post"><input name="q" value="1"></form>'
    )
