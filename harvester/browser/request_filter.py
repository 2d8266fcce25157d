"""Decides which requests of a page are blocked."""

from urllib.parse import urlsplit

from harvester.sites.browser import RenderOptions

TRACKERS = frozenset(
    {
        "google-analytics.com",
        "googletagmanager.com",
        "googletagservices.com",
        "googlesyndication.com",
        "googleadservices.com",
        "doubleclick.net",
        "adservice.google.com",
        "connect.facebook.net",
        "facebook.com",
        "analytics.tiktok.com",
        "ads-twitter.com",
        "analytics.twitter.com",
        "bat.bing.com",
        "clarity.ms",
        "hotjar.com",
        "hotjar.io",
        "fullstory.com",
        "mouseflow.com",
        "crazyegg.com",
        "luckyorange.com",
        "segment.com",
        "segment.io",
        "mixpanel.com",
        "amplitude.com",
        "heapanalytics.com",
        "newrelic.com",
        "nr-data.net",
        "sentry.io",
        "bugsnag.com",
        "datadoghq-browser-agent.com",
        "quantserve.com",
        "scorecardresearch.com",
        "chartbeat.com",
        "chartbeat.net",
        "criteo.com",
        "criteo.net",
        "taboola.com",
        "outbrain.com",
        "adnxs.com",
        "amazon-adsystem.com",
        "rubiconproject.com",
        "pubmatic.com",
        "moatads.com",
        "optimizely.com",
        "omtrdc.net",
        "demdex.net",
        "matomo.cloud",
        "plausible.io",
        "cloudflareinsights.com",
        "yandex.ru",
    }
)
"""Hosts, with their subdomains, that count visitors or show advertisements."""


class RequestFilter:
    """The blocked requests on one page. The site's own hosts never count as trackers."""

    def __init__(self, rendering: RenderOptions, page_url: str) -> None:
        self._kinds = frozenset(rendering.block)
        self._hosts = frozenset(rendering.block_hosts)
        self._trackers = TRACKERS if rendering.block_trackers else frozenset()
        self._own = urlsplit(page_url).hostname or ""

    def refuses(self, url: str, kind: str) -> bool:
        """Returns True if a request of this resource type is blocked."""
        if kind in self._kinds:
            return True
        host = urlsplit(url).hostname or ""
        if _is_below(host, self._hosts):
            return True
        return _is_below(host, self._trackers) and not _is_below(self._own, self._trackers)


def _is_below(host: str, hosts: frozenset[str]) -> bool:
    while host:
        if host in hosts:
            return True
        host = host.partition(".")[2]
    return False
