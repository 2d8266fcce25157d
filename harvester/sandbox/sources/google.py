"""The feed of Google Trends: twelve searches of a country, some without articles."""

from email.utils import formatdate
from xml.sax.saxutils import escape

from harvester.sandbox.responses import SandboxAnswer, html_page
from harvester.sandbox.sources.popular import Clock, Popular, popular

ROWS = 12
XML_TYPE = "application/xml; charset=utf-8"
_HEAD = (
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    '<rss xmlns:atom="http://www.w3.org/2005/Atom" xmlns:ht="https://trends.google.com/trending/rss" version="2.0">\n'
    "<channel><title>Daily Search Trends</title><description>Recent searches</description>"
)


def feed(region: str, clock: Clock, base: str) -> SandboxAnswer:
    """Returns the feed of a country, or a 404 page for an unknown one."""
    if not region.isalpha() or len(region) != 2:
        return html_page("Error 404 (Not Found)", "The requested URL was not found on this server.", 404)
    now = clock.now()
    items = "".join(_item(each, now, base) for each in popular(region, now)[:ROWS])
    return SandboxAnswer(f"{_HEAD}{items}</channel></rss>\n".encode(), 200, XML_TYPE)


def _item(each: Popular, now: float, base: str) -> str:
    traffic = f"{each.uses // 1000}K+" if each.uses >= 20_000 else f"{each.uses // 100 * 100:,}+"
    parts = {
        "title": f"{each.name} today",
        "ht:approx_traffic": traffic,
        "link": f"{base}/trending/rss?geo=US",
        "pubDate": formatdate(now - 600 * each.rank),
        "ht:picture": f"{base}/img/none.jpg",
        "ht:picture_source": "A Paper",
    }
    text = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in parts.items())
    return f"<item>{text}{_news(each, base) * (each.rank % 4 != 0)}</item>"


def _news(each: Popular, base: str) -> str:
    return "".join(
        f"<ht:news_item><ht:news_item_title>{escape(each.name)} &amp; more</ht:news_item_title>"
        f"<ht:news_item_snippet></ht:news_item_snippet><ht:news_item_url>{base}/news/{each.rank}-{number}</ht:news_item_url>"
        f"<ht:news_item_source>A Paper</ht:news_item_source></ht:news_item>"
        for number in range(3)
    )
