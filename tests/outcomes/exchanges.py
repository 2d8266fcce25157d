"""Exchanges and what they mean: the outcome, and the name of the rule that tells it (empty: none has to).

Every rule of outcomes/rules.toml, every condition of it and every entry of a condition is needed by one of them.
"""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy
from playwright.async_api import Error as BrowserError
from playwright.async_api import TimeoutError as BrowserTimeoutError
from scrapy import Request
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    NotSupported,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)
from scrapy.http import Response
from twisted.internet import error as twisted
from yarl import URL

from harvester.exceptions import (
    AddressError,
    DecodingError,
    LocalFault,
    NavigationError,
    NotStoredError,
    RedirectError,
)
from harvester.meta import EXPECTS
from harvester.outcomes import Outcome
from harvester.outcomes.answer import Answer

O = Outcome  # noqa: E741

HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json; charset=utf-8", "text/plain"
BINARY = "application/octet-stream"
SITE = "https://county.example/parcels"
PDS, API = "https://pds.example/xrpc/com.atproto.x.y", "https://api.example/xrpc/app.bsky.x.y"
SEARCH = "https://public.api.bsky.app/xrpc/app.bsky.feed.searchPosts?q=a"
REDDIT = "https://www.reddit.com/r/weather/new.json"
GRAPH = "https://graph.facebook.com/v26.0/instagram_oembed?url=x"
HASHTAG = "https://graph.facebook.com/v26.0/ig_hashtag_search?user_id=1&q=cats"
TIKTOK = "https://ads.tiktok.com/creative_radar_api/v1/popular_trend/hashtag/list?page=1"
ARCGIS = "https://gis.county.example/arcgis/rest/services/Parcels/MapServer/0/query?where=1=1&f=json"
SOCRATA = "https://data.example/resource/pabr-t5kh.json?$limit=10"
YOUTUBE = "https://www.googleapis.com/youtube/v3/search?part=snippet"
EAGLE = "https://county.example/assessor/taxweb/results.jsp"
ESEARCH = "https://esearch.examplecad.org/Property/View/1234?year=2025"
RECAPTCHA = "https://esearch.examplecad.org/search/shouldUseRecaptcha"


class Exchange(NamedTuple):
    """A request and its answer."""

    outcome: Outcome
    rule: str
    status: int
    body: str | bytes = ""
    kind: str | None = HTML
    headers: Mapping[str, str] = {}
    url: str = SITE
    asked: str | None = None
    """The address before a redirect."""
    meta: Mapping[str, Any] = {}
    accept: str | None = None
    method: str = "GET"
    known: str = ""
    """The ETag of what is known."""
    ending: str = ""
    flags: Sequence[str] = ()

    def answer(self) -> Answer:
        return Answer(self.response(), self.request(), self.ending)

    def request(self) -> Request:
        meta = dict(self.meta) | ({"redirect_urls": [self.asked]} if self.asked else {})
        headers = {"Accept": self.accept} if self.accept else {}
        headers |= {"If-None-Match": self.known} if self.known else {}
        return Request(self.url, method=self.method, headers=headers, meta=meta)

    def response(self) -> Response:
        body = self.body.encode() if isinstance(self.body, str) else self.body
        headers = {**({"Content-Type": self.kind} if self.kind else {}), **self.headers}
        return Response(self.url, self.status, headers, body, list(self.flags))


def page(title: str = "", text: str = "", size: int = 0) -> str:
    """An HTML page; with `size` it has that many bytes at least."""
    filled = "<p>Lorem ipsum dolor sit amet</p>" * (size // 30)
    return f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{text}{filled}</body></html>"


def xrpc(outcome: Outcome, rule: str, status: int, name: str, message: str = "", url: str = PDS) -> Exchange:
    """What servers of the AT protocol say."""
    return Exchange(outcome, rule, status, json.dumps({"error": name, "message": message}), JSON, url=url)


def said(outcome: Outcome, rule: str, status: int, body: Any, url: str = SITE, kind: str = JSON) -> Exchange:
    """JSON."""
    return Exchange(outcome, rule, status, json.dumps(body), kind, url=url)


def shown(outcome: Outcome, rule: str, status: int, title: str = "", text: str = "", **more: Any) -> Exchange:
    """A page."""
    return Exchange(outcome, rule, status, page(title, text, more.pop("size", 0)), **more)


def marked(outcome: Outcome, rule: str, status: int, name: str, value: str, **more: Any) -> Exchange:
    """An answer that a header speaks for."""
    return Exchange(outcome, rule, status, "", None, {name: value}, **more)


def arcgis(outcome: Outcome, rule: str, code: int, message: str = "", status: int = 200) -> Exchange:
    error = {"error": {"code": code, "message": message, "details": []}}
    return said(outcome, rule, status, error, ARCGIS, "text/plain;charset=utf-8")


TEN_ROWS = {"features": [{"attributes": {"OBJECTID": number}} for number in range(10)], "exceededTransferLimit": True}
BIG = 50_000
LARGE = 20_000

PROXIES = [
    marked(O.BLOCKED, "proxy-tells-of-a-ban", 520, "Zyte-Error-Type", "/download/website-ban"),
    marked(O.BLOCKED, "proxy-tells-of-a-ban", 503, "X-Crawlera-Error", "banned"),
    marked(O.DNS, "proxy-tells-of-dns", 502, "Proxy-Status", "brd; error=dns_error; details=x"),
    marked(O.DNS, "proxy-tells-of-dns", 502, "Proxy-Status", 'brd; error="dns_timeout"'),
    marked(O.NETWORK, "proxy-tells-of-the-site", 502, "Proxy-Status", "brd; error=destination_ip_unroutable"),
    marked(O.NETWORK, "proxy-tells-of-the-site", 504, "Proxy-Status", "brd; error=connection_timeout"),
    marked(O.PROXY, "proxy-error-header", 502, "X-BRD-Err-Code", "client_10060"),
    marked(O.PROXY, "proxy-error-header", 403, "X-BRD-Err-Code", "policy_20050"),
    marked(O.PROXY, "proxy-error-header", 502, "X-BRD-Error", "No peers"),
    marked(O.PROXY, "proxy-error-header", 502, "X-Luminati-Error", "No peers"),
    marked(O.PROXY, "proxy-error-header", 403, "X-Error-Description", "Access denied: restricted target"),
    marked(O.PROXY, "proxy-error-header", 429, "Zyte-Error-Type", "/limits/over-user-limit"),
    marked(O.PROXY, "proxy-error-header", 503, "X-Crawlera-Error", "noslaves"),
    marked(O.PROXY, "proxy-error-header", 500, "Proxy-Status", "brd; error=proxy_internal_error"),
    marked(O.OK, "", 200, "X-Error-Description", "none"),
    marked(O.OK, "", 200, "Proxy-Status", "ExampleCDN"),
    Exchange(O.PROXY, "proxy-login", 407),
]

WALLS = [
    marked(O.CHALLENGE, "challenge-header", 403, "cf-mitigated", "challenge"),
    marked(O.CHALLENGE, "challenge-header", 202, "x-amzn-waf-action", "challenge"),
    marked(O.CHALLENGE, "challenge-header", 405, "x-amzn-waf-action", "captcha"),
    marked(O.CHALLENGE, "challenge-header", 202, "SG-Captcha", "challenge"),
    marked(O.CHALLENGE, "challenge-header", 429, "X-Vercel-Mitigated", "challenge"),
    marked(O.CHALLENGE, "challenge-header", 429, "x-kpsdk-ct", "0a1b"),
    marked(O.BLOCKED, "block-header", 403, "X-Vercel-Mitigated", "deny"),
    marked(O.BLOCKED, "block-header", 403, "X-Sucuri-Block", "EXPVULN04"),
    shown(
        O.RATE_LIMITED,
        "cloudflare-rate-limit",
        429,
        "Access denied | county.example used Cloudflare to restrict access",
        "<h1>Error 1015</h1><h2>You are being rate limited</h2>",
    ),
    shown(
        O.BLOCKED,
        "cloudflare-block",
        403,
        "Access denied | county.example used Cloudflare to restrict access",
        "<h1>Error 1020</h1><h2>Access denied</h2>",
    ),
    shown(O.RATE_LIMITED, "too-many-requests", 429, "Slow down", "You are being rate limited"),
    shown(O.CHALLENGE, "challenge-title", 403, "Just a moment..."),
    shown(O.CHALLENGE, "challenge-title", 503, "Just a moment..."),
    shown(O.CHALLENGE, "challenge-title", 200, "Just a moment..."),
    shown(O.CHALLENGE, "challenge-title", 403, "Attention Required! | Cloudflare"),
    shown(O.CHALLENGE, "challenge-title", 403, "DDoS-Guard"),
    shown(O.CHALLENGE, "challenge-title", 200, "Pardon Our Interruption"),
    shown(O.CHALLENGE, "challenge-title", 200, "Client Challenge"),
    shown(O.CHALLENGE, "challenge-title", 200, "Making sure you&#39;re not a bot!"),
    shown(O.CHALLENGE, "challenge-title", 429, "Vercel Security Checkpoint"),
    shown(O.CHALLENGE, "challenge-title", 405, "Human Verification"),
    Exchange(O.BLOCKED, "forbidden", 403, page("x" * 6000) + "Just a moment..."),
    shown(O.CHALLENGE, "challenge-markup", 403, "", "<script>window._cf_chl_opt = {};</script>"),
    shown(O.CHALLENGE, "challenge-markup", 503, "", '<div id="cf-chl-widget"></div>'),
    shown(O.CHALLENGE, "challenge-markup", 403, "", '<script src="https://ct.captcha-delivery.com/c.js"></script>'),
    said(O.CHALLENGE, "challenge-markup", 403, {"url": "https://geo.captcha-delivery.com/captcha/?cid=1"}),
    shown(O.CHALLENGE, "challenge-markup", 403, "", '<div id="px-captcha"></div>'),
    said(O.CHALLENGE, "challenge-markup", 403, {"appId": "PX1", "blockScript": "/x/captcha.js"}),
    shown(O.CHALLENGE, "challenge-markup", 200, "", '<div id="sec-if-cpt-container"></div>'),
    shown(O.CHALLENGE, "challenge-markup", 307, "", "<script>var sucuri_cloudproxy_js='';</script>"),
    shown(O.CHALLENGE, "challenge-markup", 403, "", '<script src="https://check.ddos-guard.net/check.js"></script>'),
    shown(O.CHALLENGE, "challenge-markup", 200, "", "<script>AwsWafIntegration.checkForceRefresh()</script>"),
    shown(O.CHALLENGE, "challenge-markup", 200, "", '<script src="/_fs-ch-1T1wmsGaOgGaSxcX/script.js"></script>'),
    shown(O.CHALLENGE, "press-and-hold", 403, "Access denied", "Press &amp; Hold to confirm you are not a machine"),
    shown(O.OK, "", 200, "Buttons", "How to press &amp; hold a button", size=BIG),
    shown(
        O.BLOCKED,
        "incapsula-incident",
        403,
        "",
        '<iframe id="main-iframe" src="/_Incapsula_Resource?SWUDNSAI=31">Request unsuccessful. '
        "Incapsula incident ID: 123-456</iframe>",
    ),
    shown(O.CHALLENGE, "incapsula-challenge", 200, "", '<script src="/_Incapsula_Resource?SWJIYLWA=1"></script>'),
    shown(O.OK, "", 200, "Parcels", '<script src="/_Incapsula_Resource?SWJIYLWA=1"></script>', size=LARGE),
    shown(
        O.CHALLENGE,
        "f5-challenge",
        200,
        "",
        "<noscript>Please enable JavaScript to view the page content.<br/>Your support ID is: 17.</noscript>",
    ),
    shown(O.OK, "", 200, "Map", "<noscript>Please enable JavaScript to view the page content.</noscript>"),
    shown(O.CHALLENGE, "captcha", 403, "", '<script src="https://hcaptcha.com/1/api.js"></script>Verify you are human'),
    shown(
        O.CHALLENGE,
        "captcha",
        200,
        "",
        '<script src="https://www.google.com/recaptcha/api.js"></script>Please confirm that you are not a robot',
    ),
    shown(
        O.CHALLENGE,
        "captcha",
        200,
        "",
        "<script src=https://www.recaptcha.net/recaptcha/api.js></script>Show us you're not a robot",
    ),
    shown(
        O.CHALLENGE,
        "captcha",
        200,
        "",
        '<script src="https://challenges.cloudflare.com/turnstile/v0/api.js"></script>Confirm you are a human',
    ),
    *(
        shown(O.CHALLENGE, "captcha", 200, "", f'<script src="https://hcaptcha.com/1/api.js"></script>{words}')
        for words in (
            "Are you a robot?",
            "One more step: the security check",
            "We saw unusual traffic from your network",
            "Unusual activity was found",
        )
    ),
    shown(O.OK, "", 200, "Contact", '<script src="https://hcaptcha.com/1/api.js"></script><form>Write to us</form>'),
    shown(O.OK, "", 200, "News", "The airport has a new security check"),
    shown(
        O.OK,
        "",
        200,
        "Contact",
        '<script src="https://hcaptcha.com/1/api.js"></script><form>A security check comes first</form>',
        size=BIG,
    ),
    shown(O.CHALLENGE, "checking-browser", 503, "", "<h1>Checking your browser before accessing county.example</h1>"),
    shown(O.CHALLENGE, "checking-browser", 403, "", "Checking if the site connection is secure"),
    shown(
        O.BLOCKED,
        "akamai-block",
        403,
        "Access Denied",
        "<h1>Access Denied</h1>You don't have permission.<p>Reference&#32;&#35;18&#46;ab</p>",
    ),
    shown(O.BLOCKED, "akamai-block", 200, "Access Denied", "Reference&#32;&#35;18&#46;ab"),
    shown(O.BLOCKED, "forbidden", 403, "Access Denied", "Ask the librarian"),
    shown(O.OK, "", 200, "Deeds", "Reference #18 of 1999"),
    shown(
        O.BLOCKED,
        "f5-block",
        200,
        "Request Rejected",
        "The requested URL was rejected. Please consult with your administrator.<br>Your support ID is: 99",
    ),
    shown(O.BLOCKED, "sucuri-block", 403, "Sucuri WebSite Firewall - Access Denied"),
    shown(O.BLOCKED, "wall", 503, "", "Your access is limited. Generated by Wordfence at Sat"),
    shown(O.BLOCKED, "wall", 406, "Not Acceptable!", "This error was generated by Mod_Security."),
    shown(O.BLOCKED, "wall", 403, "", "You've been blocked by network security.", url="https://notreddit.com/"),
    shown(O.BLOCKED, "wall", 429, "", "Your IP address has been blocked"),
    shown(O.BLOCKED, "wall", 429, "", "Sorry: your IP has been blocked"),
    shown(O.BLOCKED, "wall", 503, "", "This request has been blocked by our security service"),
    shown(O.OK, "", 200, "Help", "What to do when your IP has been blocked"),
    shown(O.AUTH_REQUIRED, "reddit-login", 403, "", "You've been blocked by network security.", url=REDDIT),
]

APIS = [
    Exchange(O.UNCHANGED, "unchanged", 304, known='"v1"'),
    Exchange(O.INVALID, "unknown-status", 304),
    Exchange(O.OK, "", 200, page("Changed"), known='"v1"'),
    xrpc(O.RATE_LIMITED, "api-rate-limit", 429, "RateLimitExceeded", "Rate Limit Exceeded"),
    xrpc(O.RATE_LIMITED, "api-rate-limit", 400, "RateLimitExceeded"),
    *(
        said(O.RATE_LIMITED, "api-rate-limit", 403, {"error": {"code": 403, "errors": [{"reason": why}]}}, YOUTUBE)
        for why in ("rateLimitExceeded", "userRateLimitExceeded")
    ),
    *(
        said(O.RATE_LIMITED, "quota-of-a-day", 403, {"error": {"code": 403, "errors": [{"reason": why}]}}, YOUTUBE)
        for why in ("quotaExceeded", "dailyLimitExceeded")
    ),
    *(
        said(outcome, rule, 503, {"type": f"https://iana.org/assignments/http-problem-types#{kind}", "title": "No"})
        for outcome, rule, kind in (
            (O.RATE_LIMITED, "api-rate-limit", "quota-exceeded"),
            (O.RATE_LIMITED, "api-rate-limit", "temporary-reduced-capacity"),
            (O.BLOCKED, "api-abuse", "abnormal-usage-detected"),
        )
    ),
    xrpc(O.SESSION_EXPIRED, "api-token-expired", 400, "ExpiredToken", "Token has expired"),
    xrpc(O.SESSION_EXPIRED, "api-token-expired", 401, "ExpiredToken", "Token has expired"),
    xrpc(O.SESSION_EXPIRED, "api-token-expired", 400, "InvalidToken", "Token could not be verified"),
    xrpc(O.SESSION_EXPIRED, "api-token-expired", 401, "InvalidToken", "Malformed token"),
    xrpc(O.INVALID, "api-unknown-call", 501, "MethodNotImplemented", "Method Not Implemented"),
    xrpc(O.INVALID, "api-unknown-call", 404, "XRPCNotSupported", "XRPCNotSupported"),
    xrpc(O.GONE, "api-gone", 400, "AccountTakedown", "Account has been suspended"),
    xrpc(O.GONE, "api-gone", 401, "AccountTakedown", "Account has been taken down"),
    xrpc(O.GONE, "api-gone", 400, "AccountDeactivated", "Account is deactivated"),
    xrpc(O.GONE, "api-gone", 400, "RepoTakendown", "Repo has been takendown: did:plc:x"),
    xrpc(O.GONE, "api-gone", 400, "RepoSuspended"),
    xrpc(O.GONE, "api-gone", 400, "RepoDeactivated", "Repo has been deactivated: did:plc:x"),
    xrpc(O.NOT_FOUND, "api-not-found", 400, "NotFound", "Post not found: at://did:plc:x/app.bsky.feed.post/1"),
    xrpc(O.NOT_FOUND, "api-not-found", 400, "RepoNotFound", "Could not find repo for DID: did:plc:x"),
    xrpc(O.NOT_FOUND, "api-not-found", 400, "RecordNotFound", "Could not locate record: at://did:plc:x/a/b"),
    xrpc(O.NOT_FOUND, "api-not-found", 400, "BlobNotFound"),
    xrpc(O.NOT_FOUND, "api-not-found", 400, "HandleNotFound"),
    xrpc(O.NOT_FOUND, "api-not-found", 400, "ActorNotFound"),
    xrpc(O.NOT_FOUND, "api-not-found", 400, "UnknownFeed", "could not find feed"),
    xrpc(O.NOT_FOUND, "api-not-found", 400, "UnknownList"),
    xrpc(O.NOT_FOUND, "api-absent", 400, "InvalidRequest", "Actor not found: nobody.test"),
    xrpc(O.NOT_FOUND, "api-absent", 400, "InvalidRequest", "Profile not found"),
    xrpc(O.NOT_FOUND, "api-absent", 400, "InvalidRequest", "Post not found: at://did:plc:x/app.bsky.feed.post/1"),
    xrpc(O.NOT_FOUND, "api-absent", 400, "InvalidRequest", "Could not find repo: did:plc:x"),
    xrpc(O.NOT_FOUND, "api-absent", 400, "InvalidRequest", "Could not locate record: at://did:plc:x/a/b"),
    xrpc(O.NOT_FOUND, "api-absent", 400, "InvalidRequest", "Blob not found"),
    xrpc(O.NOT_FOUND, "api-absent", 400, "InvalidRequest", "Unable to resolve handle"),
    xrpc(O.NOT_FOUND, "api-absent", 400, "InvalidRequest", "List not found"),
    xrpc(O.SERVER_ERROR, "server-error", 500, "InternalServerError", "Profile not found"),
    xrpc(O.GONE, "api-blocks-account", 400, "BlockedActor", "Requester has blocked actor: did:plc:x"),
    xrpc(O.GONE, "api-blocks-account", 400, "BlockedByActor", "Requester is blocked by actor: did:plc:x"),
    xrpc(O.INVALID, "api-bad-cursor", 400, "InvalidRequest", "Malformed cursor"),
    xrpc(O.INVALID, "api-bad-cursor", 400, "InvalidRequest", "Invalid cursor format"),
    xrpc(O.SERVER_ERROR, "server-error", 500, "InternalServerError", "Malformed cursor"),
    xrpc(O.AUTH_REQUIRED, "api-login", 401, "AuthMissing", "Authentication Required"),
    xrpc(O.AUTH_REQUIRED, "api-login", 403, "AuthMissing"),
    xrpc(O.AUTH_REQUIRED, "api-login", 401, "AuthenticationRequired", "Invalid identifier or password"),
    said(O.AUTH_REQUIRED, "api-login", 400, {"error": {"code": 400, "errors": [{"reason": "keyInvalid"}]}}, YOUTUBE),
    said(
        O.AUTH_REQUIRED,
        "api-login",
        403,
        {"error": {"code": 403, "errors": [{"reason": "accessNotConfigured"}]}},
        YOUTUBE,
    ),
    said(O.AUTH_REQUIRED, "api-login", 403, {"code": "permission_denied", "error": True, "message": "no"}, SOCRATA),
    said(O.AUTH_REQUIRED, "api-login", 422, {"error": "This method requires an authenticated user"}),
    said(O.AUTH_REQUIRED, "unauthorized", 401, {"error": "The access token is invalid"}),
    Exchange(O.INVALID, "xrpc-unknown-call", 404, page("404"), url=PDS),
    Exchange(O.INVALID, "xrpc-unknown-call", 404, "", JSON, url=PDS),
    xrpc(O.NOT_FOUND, "not-found", 404, "NotFoundError", "Blob not found"),
    Exchange(O.SERVER_ERROR, "server-error", 502, page("Bad"), url=PDS),
    Exchange(O.AUTH_REQUIRED, "bluesky-search-login", 403, page("403 Forbidden", "administrative rules"), url=SEARCH),
    Exchange(O.RATE_LIMITED, "too-many-requests", 429, page("429 Too Many Requests"), url=SEARCH),
    xrpc(O.BLOCKED, "forbidden", 403, "Forbidden", "no", SEARCH),
    said(O.AUTH_REQUIRED, "reddit-login", 403, {"message": "Forbidden", "error": 403}, REDDIT),
    said(O.RATE_LIMITED, "too-many-requests", 429, {"message": "Too Many Requests", "error": 429}, REDDIT),
    *(
        said(O.RATE_LIMITED, "graph-rate-limit", 400, {"error": {"message": "limit", "code": code}}, GRAPH)
        for code in (4, 17, 18, 32, 613)
    ),
    said(O.INVALID, "bad-request", 400, {"error": {"message": "no such field", "code": 100}}, GRAPH),
    said(O.INVALID, "bad-request", 400, {"error": {"message": "another's code", "code": 4}}),
    said(O.SESSION_EXPIRED, "graph-token", 400, {"error": {"message": "Session has expired", "code": 190}}, GRAPH),
    said(O.INVALID, "bad-request", 400, {"error": {"message": "another's code", "code": 190}}),
    said(O.RATE_LIMITED, "quota-of-hashtags", 400, {"error": {"message": "too many hashtags", "code": 18}}, HASHTAG),
    said(O.INVALID, "bad-request", 400, {"error": {"message": "another's code", "code": 18}}),
    said(O.INVALID, "bad-request", 400, {"error": {"message": "no such user", "code": 100}}, HASHTAG),
    said(O.NOT_FOUND, "graph-not-found", 400, {"error": {"message": "does not exist", "code": 24}}, HASHTAG),
    said(O.INVALID, "bad-request", 400, {"error": {"message": "another's code", "code": 24}}, GRAPH),
    said(O.AUTH_REQUIRED, "tiktok-signature", 200, {"code": 40101, "msg": "no permission"}, TIKTOK),
    said(O.RATE_LIMITED, "tiktok-rate-limit", 200, {"code": 40100, "msg": "too frequent"}, TIKTOK),
    said(O.OK, "", 200, {"code": 0, "msg": "OK", "data": {"list": []}}, TIKTOK),
    said(O.OK, "", 200, {"code": 40101, "name": "a postal code"}),
    said(O.OK, "", 200, {"code": 40100, "name": "a postal code"}),
    arcgis(O.AUTH_REQUIRED, "arcgis-token-wanted", 499, "Token Required"),
    arcgis(O.AUTH_REQUIRED, "arcgis-no-permission", 403, "You do not have permissions to access this resource"),
    arcgis(O.AUTH_REQUIRED, "arcgis-no-permission", 401),
    arcgis(O.AUTH_REQUIRED, "unauthorized", 401, status=401),
    arcgis(O.SESSION_EXPIRED, "arcgis-token-expired", 498, "Invalid Token"),
    arcgis(O.SESSION_EXPIRED, "arcgis-token-expired", 498, "Invalid Token", status=498),
    Exchange(
        O.SESSION_EXPIRED,
        "arcgis-token-expired",
        200,
        b'\xef\xbb\xbf{"error":{"code":498,"message":"Invalid Token"}}',
        TEXT,
        url=ARCGIS,
    ),
    arcgis(O.NOT_FOUND, "arcgis-not-found", 404, "Service Parcels/MapServer not found"),
    arcgis(O.NOT_FOUND, "not-found", 404, status=404),
    arcgis(O.RATE_LIMITED, "arcgis-rate-limit", 429, "Too many requests"),
    arcgis(O.RATE_LIMITED, "too-many-requests", 429, status=429),
    arcgis(O.SERVER_ERROR, "arcgis-server-error", 500, "Error performing query operation"),
    arcgis(O.SERVER_ERROR, "arcgis-server-error", 504, "Your request has timed out."),
    arcgis(O.SERVER_ERROR, "server-error", 500, status=500),
    arcgis(O.INVALID, "arcgis-bad-request", 400, "Pagination is not supported."),
    arcgis(O.INVALID, "bad-request", 400, status=400),
    said(O.OK, "", 200, TEN_ROWS, ARCGIS, "text/plain;charset=utf-8"),
    arcgis(O.INVALID, "error-in-a-200", 612, "nobody knows"),
    said(O.INVALID, "error-in-a-200", 200, {"error": "backend down"}),
    said(O.INVALID, "error-in-a-200", 200, {"code": "query.odd", "error": True, "message": "odd"}, SOCRATA),
    said(O.INVALID, "bad-request", 400, {"code": "query.compiler.malformed", "error": True, "message": "x"}, SOCRATA),
    said(O.RATE_LIMITED, "too-many-requests", 429, {"code": "throttled", "error": True, "message": "x"}, SOCRATA),
    said(O.NOT_FOUND, "not-found", 404, {"code": "dataset.missing", "error": True, "message": "x"}, SOCRATA),
    said(O.OK, "", 200, [], SOCRATA),
    said(O.OK, "", 200, {"errors": [], "message": "all is well"}),
    said(O.CHALLENGE, "esearch-captcha", 200, True, RECAPTCHA),
    said(O.CHALLENGE, "esearch-captcha", 200, {"shouldUseRecaptcha": True}, RECAPTCHA),
    said(O.OK, "", 200, False, RECAPTCHA),
    said(O.OK, "", 200, True),
    said(O.OK, "", 200, {"sure": True, "words": "x" * 100}, RECAPTCHA),
]

PAGES = [
    shown(O.POLICY_DENIED, "no-access", 200, "", "Sorry, You don't have access to requested page."),
    shown(O.POLICY_DENIED, "no-access", 200, "", "You do not have access to the requested page."),
    shown(
        O.NOT_FOUND,
        "no-such-parcel",
        200,
        "Error",
        '<form action="./Error.aspx?Message=There+was+an+error+loading+the+parcel." method="post"></form>',
    ),
    shown(O.EMPTY, "no-results", 200, "Search", "<p>Your search did not&nbsp;find\n any <b>records</b>.</p>"),
    shown(O.EMPTY, "no-results", 200, "", f'<input value="{"x" * 30_000}">Your search did not find any records.'),
    shown(O.EMPTY, "no-results-panel", 200, "", '<div id="ctlBodyPane_noDataList_pnlNoResults">Nothing</div>'),
    shown(O.EMPTY, "no-results-heading", 200, "", '<h3 id="propertySearchResults_pageHeading">None found.</h3>'),
    shown(O.OK, "", 200, "", '<h3 id="propertySearchResults_pageHeading">Property Search Results > 1 - 1 of 1</h3>'),
    shown(O.OK, "", 200, "", "<h3>Liens</h3>None found."),
    shown(O.OK, "", 200, "", "<script>say('Your search did not find any records.')</script><table></table>"),
    shown(O.OK, "", 200, "", "<!-- Your search did not find any records. --><table></table>"),
    shown(O.TOO_MANY, "too-many-results", 200, "", "Your search returned too many results. Please refine it."),
    shown(O.TOO_MANY, "too-many-results", 200, "", "The search returned more than the maximum of 10,000 rows."),
    shown(O.TOO_MANY, "too-many-results", 200, "", "The result exceeds the maximum number of records"),
    shown(O.TOO_MANY, "too-many-results", 200, "", "Too many records were found"),
    shown(O.MAINTENANCE, "maintenance-page", 200, "", "We are currently conducting maintenance. Come back later."),
    shown(O.MAINTENANCE, "maintenance-page", 200, "", "This site is currently undergoing maintenance."),
    *(
        shown(O.MAINTENANCE, "maintenance-title", 200, title)
        for title in (
            "Site Under Maintenance",
            "Down for Maintenance",
            "Site Maintenance | County",
            "Maintenance mode",
            "Scheduled maintenance",
        )
    ),
    shown(O.MAINTENANCE, "maintenance-503", 503, "Sorry", "Back after maintenance at noon"),
    shown(O.OK, "", 200, "Parcels", "On Sunday there will be maintenance from 2 to 4"),
    Exchange(
        O.SESSION_EXPIRED,
        "bounced-to-login",
        200,
        page("Disclaimer"),
        url="https://county.example/search/Disclaimer.aspx?FromUrl=../search/commonsearch.aspx",
        asked="https://county.example/search/commonsearch.aspx?mode=parid",
    ),
    Exchange(O.OK, "", 200, page("Disclaimer"), url="https://county.example/search/Disclaimer.aspx"),
    Exchange(
        O.OK,
        "",
        200,
        page("Disclaimer"),
        url="https://county.example/Disclaimer.aspx?again=1",
        asked="http://www.county.example/disclaimer.aspx",
    ),
    *(
        Exchange(O.SESSION_EXPIRED, "bounced-to-login", 200, page("Welcome"), url=url, asked=SITE)
        for url in (
            "https://beacon.example/ValidateUser.aspx",
            "https://county.example/Login.aspx?next=/parcels",
            "https://county.example/sign-in",
            "https://county.example/account/login_form",
            "https://login.county.example/start",
        )
    ),
    Exchange(O.OK, "", 200, page("Blogging"), url="https://county.example/blogindex", asked=SITE),
    Exchange(O.OK, "", 200, page("Parcels"), url="https://county.example/en/parcels", asked=SITE),
    Exchange(
        O.SERVER_ERROR,
        "bounced-to-error",
        200,
        page("Oops"),
        url="https://county.example/GenericError.aspx",
        asked=SITE,
    ),
    Exchange(O.OK, "", 200, page("Oops"), url="https://county.example/GenericError.aspx"),
    Exchange(
        O.MAINTENANCE,
        "bounced-to-maintenance",
        200,
        page("Back soon"),
        url="https://county.example/clientdb/customdisplay.htm?aspxerrorpath=/clientdb/Property.aspx",
        asked="https://county.example/clientdb/Property.aspx?prop_id=7",
    ),
    Exchange(O.OK, "", 200, page("Help"), url="https://county.example/clientdb/customdisplay.htm"),
    *(
        shown(O.SESSION_EXPIRED, "session-page", 200, "", words)
        for words in (
            "Your session is no longer active",
            "Your session has expired. Please start over.",
            "Sorry, your session has timed out",
            "Your session expired",
        )
    ),
    shown(O.OK, "", 200, "Parcels", '<div class="dialog">Your session has expired</div>', size=LARGE),
    shown(O.OK, "", 200, "Search", '<form><input name="session"></form>'),
    shown(O.SESSION_EXPIRED, "eagleweb-login", 200, "", "Please login to go on", url=EAGLE),
    shown(O.SESSION_EXPIRED, "eagleweb-login", 200, "", "please login", url="https://ut.example/eaglesoftware/taxweb/"),
    shown(O.OK, "", 200, "", "Please login to comment"),
    shown(O.OK, "", 200, "", "Showing 3 result(s)", url=EAGLE),
    shown(O.OK, "", 200, "", "Please login to see more", url=EAGLE, size=LARGE),
    shown(O.SESSION_EXPIRED, "stale-form", 500, "Runtime Error", "Validation of viewstate MAC failed."),
    shown(O.SESSION_EXPIRED, "stale-form", 500, "", "Invalid postback or callback argument."),
    shown(O.SESSION_EXPIRED, "stale-form", 200, "", "The state information is invalid for this page"),
    shown(O.INVALID, "form-not-registered", 200, "", "Requested page not registered"),
    shown(O.AUTH_REQUIRED, "not-authorized-page", 200, "", "You are not authorized to view this page"),
    shown(O.AUTH_REQUIRED, "not-authorized-page", 200, "", "You must be logged in to view records"),
    shown(O.AUTH_REQUIRED, "not-authorized-page", 200, "", "You must log in to continue"),
    shown(O.OK, "", 200, "Help", "You must be logged in to view bills. Here is how.", size=LARGE),
    shown(O.SERVER_ERROR, "esearch-error", 200, "", "<h2>An Error Occurred!</h2>", url=ESEARCH),
    shown(O.SERVER_ERROR, "esearch-error", 200, "", "An Error Occurred!", url="https://esearch.other.example/Map"),
    shown(O.SERVER_ERROR, "esearch-error", 200, "", "An Error Occurred!", url="https://cad.example/Property/View/1"),
    shown(O.OK, "", 200, "", "An error occurred! So the judge said."),
    shown(O.OK, "", 200, "", "<h2>Owner</h2>", url=ESEARCH),
    *(
        shown(O.SERVER_ERROR, "error-page", 200, title)
        for title in (
            "500 Internal Server Error",
            "502 Bad Gateway",
            "503 Service Temporarily Unavailable",
            "504 Gateway Time-out",
            "Runtime Error",
            "Service Unavailable",
            "Application Error",
        )
    ),
    shown(O.SERVER_ERROR, "server-error", 502, "502 Bad Gateway"),
    shown(O.SERVER_ERROR, "aspnet-error", 200, "Oops", "Server Error in '/' Application."),
    shown(O.SERVER_ERROR, "server-error", 500, "Oops", "Server Error in '/' Application."),
    *(
        shown(O.NOT_FOUND, "missing-page", 200, title)
        for title in ("404 Not Found", "Page not found | County", "404 - File or directory not found.", "Error 404")
    ),
    shown(O.NOT_FOUND, "not-found", 404, "404 Not Found"),
]

TO_DISCLAIMER, PANEL_ERROR = (
    "1|#||4|41|pageRedirect||%2fSearch%2fDisclaimer.aspx|",
    "30|error|500|Object reference not set|",
)
PANELS = [
    *(Exchange(O.SESSION_EXPIRED, "update-panel-redirect", 200, TO_DISCLAIMER, kind) for kind in (TEXT, HTML)),
    *(Exchange(O.SERVER_ERROR, "update-panel-error", 200, PANEL_ERROR, kind) for kind in (TEXT, HTML)),
    *(Exchange(O.OK, "", 200, body, BINARY) for body in (TO_DISCLAIMER, PANEL_ERROR)),
    Exchange(O.OK, "", 200, "1|#||4|41|pageRedirect||%2fSearch%2fResults.aspx|", TEXT),
    Exchange(O.OK, "", 200, "1|#||4|25|updatePanel|results|<p>Login: pageRedirect</p>|", TEXT),
    Exchange(
        O.SESSION_EXPIRED, "stale-form", 200, "50|error|500|The state information is invalid for this page|", TEXT
    ),
]

CONTENTS = [
    Exchange(O.OK, "", 200, "{}", JSON),
    Exchange(O.OK, "", 206, b"part", "image/jpeg"),
    Exchange(O.OK, "", 200, '{"feed":[]}', JSON, url=API),
    Exchange(O.OK, "", 200, '{"feed":[]}\n  ', JSON, url=API),
    Exchange(O.OK, "", 200, "[]", JSON, url=API),
    Exchange(O.OK, "", 200, b"\xef\xbb\xbf" + b"\r\n" * 100 + b'{"feed":[]}' + b" \n" * 100, JSON, url=API),
    Exchange(O.NETWORK, "cut-short", 200, "\n" * 100 + '{"feed":[' + " \n" * 100, JSON, url=API),
    Exchange(O.NETWORK, "cut-short", 200, " \n" * 100, JSON, url=API),
    Exchange(O.OK, "", 200, ")]}',\n" + '{"default":{}}\n', JSON),
    Exchange(O.OK, "", 200, "{}", BINARY, url=API),
    Exchange(O.OK, "", 200, "\n" * 100 + "[1,2]" + "\n" * 100, BINARY, url=API),
    Exchange(O.NETWORK, "cut-short", 200, "[1,", BINARY, url=API),
    Exchange(O.NETWORK, "cut-short", 200, '\n{\n "id": 1,', BINARY),
    Exchange(O.NETWORK, "cut-short", 200, '[ {"id": 1},', TEXT),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, b"PK\x03\x04", BINARY, url=API),
    Exchange(O.OK, "", 200, b"PK\x03\x04", BINARY, {"Content-Length": "4"}),
    Exchange(O.OK, "", 200, b"{\x00\x17", BINARY),
    Exchange(O.OK, "", 200, b"[\x00\x17", BINARY),
    Exchange(O.OK, "", 200, "<html> in a download", BINARY, ending="</html>"),
    Exchange(O.OK, "", 200, "[parcels]\nyear = 2026\n", TEXT),
    Exchange(O.OK, "", 200, '{"ids": [1]}', HTML, url=API),
    Exchange(O.NETWORK, "cut-short", 200, '{"ids": [1', HTML, url=API),
    Exchange(O.OK, "", 200, "", JSON, {"Content-Length": "20000"}, url=API, method="HEAD"),
    Exchange(O.OK, "", 200, "", HTML, url=API, method="HEAD"),
    Exchange(O.OK, "", 200, "", HTML, {"Content-Length": "20000"}, method="HEAD", ending="</html>"),
    Exchange(O.UNCHANGED, "unchanged", 304, "", JSON, {"Content-Length": "20000"}, url=API, known='"v1"'),
    Exchange(O.EMPTY, "no-content", 204, "", JSON, {"Content-Length": "20000"}, url=API),
    Exchange(O.EMPTY, "no-content", 205, "", None),
    Exchange(O.OK, "", 201, '{"id":1}', JSON),
    Exchange(O.OK, "", 203, page("Parcels")),
    said(O.INVALID, "error-in-a-200", 203, {"error": "Boom", "message": "no"}),
    Exchange(O.NETWORK, "cut-short", 201, '{"id":[1,2', JSON),
    shown(O.NOT_FOUND, "missing-page", 203, "Page not found"),
    Exchange(O.LAYOUT_CHANGED, "not-json", 203, page("Parcels"), url=f"{SITE}.json"),
    Exchange(O.SESSION_EXPIRED, "session-page", 200, "{{ head }}<p>Your session has expired</p>{{ foot }}"),
    Exchange(O.NETWORK, "cut-short", 200, '{"feed":[', JSON, url=API),
    Exchange(O.NETWORK, "cut-short", 200, '[{"a":1}', JSON, url=API),
    Exchange(O.NETWORK, "cut-short", 200, "", JSON, url=API),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, "<html></html>", JSON, url=API),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, "<html></html>", HTML, url=API),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, "<html></html>", None, url=API),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, "hello", TEXT, url=API),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, b"\x89PNG", "image/png", url=API),
    Exchange(O.OK, "", 200, "{}", TEXT, url=API),
    Exchange(O.OK, "", 200, b'\xef\xbb\xbf {"features": []}', TEXT, url=ARCGIS),
    Exchange(O.NETWORK, "cut-short", 200, b'\xef\xbb\xbf {"features": [', TEXT, url=ARCGIS),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, page("Parcels"), url=ARCGIS),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, page("Parcels"), url=SOCRATA),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, page("Parcels"), accept="application/json"),
    Exchange(O.OK, "", 200, page("Parcels"), accept="text/html, application/json;q=0.5"),
    Exchange(O.LAYOUT_CHANGED, "not-json", 200, page("Parcels"), meta={EXPECTS: "json"}),
    Exchange(O.CHALLENGE, "challenge-title", 200, page("Just a moment..."), url=API),
    Exchange(O.SERVER_ERROR, "server-error", 500, page("Oops"), url=ARCGIS),
    Exchange(O.OK, "", 200, b"\x3a\xa2", "application/vnd.ipld.car", url=PDS),
    Exchange(O.OK, "", 200, '{"id":"did:plc:x"}', "application/did+ld+json", url=PDS),
    Exchange(O.NETWORK, "cut-short", 200, '{"id":"did:pl', "application/did+ld+json", url=PDS),
    Exchange(O.SERVER_ERROR, "server-error", 500, '{"error":"Inter', JSON, url=PDS),
    Exchange(O.OK, "", 200, b"\xff\xd8", "image/jpeg", url="https://cdn.example/img/x"),
    Exchange(O.NETWORK, "cut-short", 200, b"\xff\xd8", "image/jpeg", {"Content-Length": "2000"}),
    Exchange(O.NETWORK, "cut-short", 206, b"\xff\xd8", "image/jpeg", {"Content-Length": "2000"}),
    Exchange(O.OK, "", 200, page("Short"), HTML, {"Content-Length": "20000"}, flags=["decoded"]),
    Exchange(O.NETWORK, "cut-short", 200, page("Short"), HTML, {"Content-Length": "20000"}, flags=["dataloss"]),
    Exchange(O.OK, "", 200, "", HTML, {"Content-Length": "20000"}, method="HEAD"),
    Exchange(O.NETWORK, "cut-short", 200, "<html><body><table><tr><td>12 El", ending="</html>"),
    Exchange(O.OK, "", 200, "<html><body><table><tr><td>12 El"),
    Exchange(O.OK, "", 200, page("Whole") + "\n", ending="</HTML>"),
]

STATUSES = [
    marked(O.RATE_LIMITED, "refused-for-now", 403, "Retry-After", "30"),
    marked(O.RATE_LIMITED, "refused-for-now", 403, "X-RateLimit-Remaining", "0"),
    marked(O.RATE_LIMITED, "refused-for-now", 403, "RateLimit-Remaining", "0"),
    marked(O.BLOCKED, "forbidden", 403, "X-RateLimit-Remaining", "10"),
    marked(O.SERVER_ERROR, "server-error", 503, "Retry-After", "30"),
    Exchange(O.RATE_LIMITED, "too-many-requests", 429),
    Exchange(O.RATE_LIMITED, "too-many-requests", 420),
    Exchange(O.RATE_LIMITED, "too-many-requests", 509),
    Exchange(O.GONE, "gone", 410),
    Exchange(O.NOT_FOUND, "not-found", 404),
    Exchange(O.NOT_FOUND, "not-found", 404, page("404")),
    said(O.NOT_FOUND, "not-found", 404, {"message": "DID not registered: did:plc:x"}),
    Exchange(O.AUTH_REQUIRED, "unauthorized", 401),
    Exchange(O.SESSION_EXPIRED, "login-timeout", 419),
    Exchange(O.SESSION_EXPIRED, "login-timeout", 440),
    Exchange(O.BLOCKED, "forbidden", 403, page("403 Forbidden")),
    xrpc(O.BLOCKED, "forbidden", 403, "Forbidden", "no"),
    Exchange(O.BLOCKED, "forbidden", 999),
    Exchange(O.POLICY_DENIED, "legal-reasons", 451),
    Exchange(O.TIMEOUT, "request-timeout", 408),
    Exchange(O.INVALID, "unknown-call", 405),
    Exchange(O.INVALID, "unknown-call", 501),
    Exchange(O.NETWORK, "captive-portal", 511),
    Exchange(O.DNS, "origin-unknown", 530, page("Origin DNS error | county.example")),
    Exchange(O.SERVER_ERROR, "server-error", 530, "error code: 1033", TEXT),
    shown(O.OK, "", 200, "Help", "What an origin DNS error is"),
    xrpc(O.SERVER_ERROR, "server-error", 500, "InternalServerError", "Internal Server Error"),
    xrpc(O.SERVER_ERROR, "server-error", 502, "UpstreamFailure", "Upstream Failure"),
    Exchange(O.SERVER_ERROR, "server-error", 503),
    Exchange(O.SERVER_ERROR, "server-error", 504, page("504")),
    Exchange(O.SERVER_ERROR, "server-error", 520, "error code: 520", TEXT),
    Exchange(O.SERVER_ERROR, "server-error", 599),
    xrpc(O.INVALID, "bad-request", 400, "InvalidRequest", "Invalid params: integer too big (maximum 100, got 101)"),
    xrpc(O.INVALID, "bad-request", 400, "InvalidRequest", "Incorrect HTTP method (POST) expected GET"),
    xrpc(O.INVALID, "bad-request", 400, "Error", "Invalid path: bad format"),
    Exchange(O.INVALID, "bad-request", 400),
    *(
        Exchange(O.INVALID, "unknown-status", status)
        for status in (202, 300, 302, 402, 409, 413, 414, 418, 422, 425, 431)
    ),
]

EXCHANGES = [*PROXIES, *WALLS, *APIS, *PAGES, *PANELS, *CONTENTS, *STATUSES]


class Failure(NamedTuple):
    """A request without an answer."""

    outcome: Outcome
    rule: str
    error: BaseException


def caused(error: BaseException, cause: BaseException) -> BaseException:
    """As download handlers raise it."""
    error.__cause__ = cause
    return error


def through_proxy(message: str) -> BaseException:
    """What aiohttp's handler makes of a proxy that refuses a tunnel."""
    history: tuple[Any, ...] = ()
    info = aiohttp.RequestInfo(URL("http://proxy.example"), "CONNECT", {}, URL("http://proxy.example"))  # type: ignore[arg-type]
    cause = aiohttp.ClientHttpProxyError(info, history, status=502, message=message)
    return caused(DownloadFailedError(str(cause)), cause)


def refused_by_proxy() -> BaseException:
    """What aiohttp's handler makes of a proxy that is not there."""
    key = aiohttp.client_reqrep.ConnectionKey("proxy.example", 8080, False, True, None, None, None)
    cause = aiohttp.ClientProxyConnectionError(key, OSError(111, "refused"))
    return caused(DownloadConnectionRefusedError(str(cause)), cause)


def unreadable() -> BaseException:
    """What aiohttp's handler makes of an answer that is not HTTP."""
    info = aiohttp.RequestInfo(URL(SITE), "GET", CIMultiDictProxy(CIMultiDict()), URL(SITE))
    cause = aiohttp.ClientResponseError(info, (), status=400, message="Bad status line")
    return caused(DownloadFailedError(str(cause)), cause)


def named(package: str, name: str, message: str) -> BaseException:
    """An exception of a package that need not be installed."""
    made: type[Exception] = type(name, (Exception,), {"__module__": f"{package}.errors"})
    return caused(DownloadConnectionRefusedError(message), made(message))


CONNECT = "Could not open CONNECT tunnel with proxy proxy.example:8080 [{'status': %d, 'reason': b'%s'}]"


def of_the_system(number: int) -> BaseException:
    """What aiohttp's handler makes of an error of the system as it connects."""
    key = aiohttp.client_reqrep.ConnectionKey("county.example", 443, True, True, None, None, None)
    cause = aiohttp.ClientConnectorError(key, OSError(number, os.strerror(number)))
    return caused(DownloadConnectionRefusedError(str(cause)), cause)


def of_the_system_by_http2(number: int) -> BaseException:
    """What httpx makes of it, on several addresses."""
    tried = caused(OSError("All connection attempts failed"), ExceptionGroup("", [OSError(number, "")]))
    return caused(DownloadConnectionRefusedError("x"), caused(ConnectionError("x"), tried))


LOCAL = {
    "too-many-files": (errno.EMFILE, errno.ENFILE),
    "no-memory": (errno.ENOMEM, errno.ENOBUFS),
    "no-ports": (errno.EADDRNOTAVAIL,),
    "not-allowed": (errno.EACCES, errno.EPERM),
    "no-network": (errno.ENETUNREACH, errno.ENETDOWN),
}

FAILURES = [
    *(Failure(O.LOCAL, rule, of_the_system(number)) for rule, numbers in LOCAL.items() for number in numbers),
    *(Failure(O.LOCAL, rule, of_the_system_by_http2(numbers[0])) for rule, numbers in LOCAL.items()),
    Failure(O.LOCAL, "local-fault", LocalFault("none of 3 unrelated hosts can be reached")),
    Failure(O.LOCAL, "no-memory", MemoryError()),
    Failure(O.LOCAL, "no-threads", RuntimeError("can't start new thread")),
    Failure(O.INVALID, "unknown-exception", RuntimeError("of another kind")),
    Failure(O.INVALID, "unknown-exception", ValueError("can't start new thread")),
    Failure(O.NETWORK, "no-connection", of_the_system(errno.ECONNREFUSED)),
    Failure(O.DNS, "tunnel-dns", TunnelError(CONNECT % (502, "dns_error"))),
    Failure(O.DNS, "tunnel-dns", through_proxy("Could not resolve host")),
    Failure(O.PROXY, "tunnel", TunnelError(CONNECT % (407, "Proxy Authentication Required"))),
    Failure(O.PROXY, "tunnel", TunnelError(CONNECT % (502, "No peer"))),
    Failure(O.PROXY, "proxy-connection", refused_by_proxy()),
    Failure(O.PROXY, "proxy-connection", through_proxy("Proxy Authentication Required")),
    Failure(O.PROXY, "proxy-connection", named("httpx", "ProxyError", "407")),
    Failure(O.PROXY, "proxy-connection", named("httpx2", "ProxyError", "407")),
    *(
        Failure(outcome, rule, BrowserError(f"Page.goto: {said} at https://county.example/"))
        for outcome, rule, words in (
            (O.PROXY, "browser-proxy", "net::ERR_PROXY_CONNECTION_FAILED net::ERR_TUNNEL_CONNECTION_FAILED"),
            (O.PROXY, "browser-proxy", "net::ERR_NO_SUPPORTED_PROXIES net::ERR_SOCKS_CONNECTION_FAILED"),
            (O.DNS, "browser-dns", "net::ERR_NAME_NOT_RESOLVED net::ERR_NAME_RESOLUTION_FAILED"),
            (O.DNS, "browser-dns", "NS_ERROR_UNKNOWN_HOST"),
            (O.NETWORK, "browser-network", "net::ERR_CONNECTION_REFUSED net::ERR_CONNECTION_RESET"),
            (O.NETWORK, "browser-network", "net::ERR_CONNECTION_CLOSED net::ERR_ADDRESS_UNREACHABLE"),
            (O.LOCAL, "browser-local", "net::ERR_INTERNET_DISCONNECTED net::ERR_NETWORK_CHANGED"),
            (O.LOCAL, "browser-local", "net::ERR_NETWORK_IO_SUSPENDED net::ERR_INSUFFICIENT_RESOURCES"),
            (O.LOCAL, "browser-local", "net::ERR_OUT_OF_MEMORY"),
            (O.NETWORK, "browser-network", "net::ERR_EMPTY_RESPONSE net::ERR_CONTENT_LENGTH_MISMATCH"),
            (O.NETWORK, "browser-network", "net::ERR_INCOMPLETE_CHUNKED_ENCODING net::ERR_SOCKET_NOT_CONNECTED"),
            (O.NETWORK, "browser-network", "net::ERR_SSL_PROTOCOL_ERROR net::ERR_CERT_DATE_INVALID"),
            (O.NETWORK, "browser-network", "net::ERR_HTTP2_PROTOCOL_ERROR net::ERR_QUIC_PROTOCOL_ERROR"),
            (O.TIMEOUT, "browser-net-timeout", "net::ERR_TIMED_OUT net::ERR_CONNECTION_TIMED_OUT"),
            (O.INVALID, "browser-redirects", "net::ERR_TOO_MANY_REDIRECTS"),
            (O.NAVIGATION_FAILED, "browser", "net::ERR_ABORTED"),
        )
        for said in words.split()
    ),
    Failure(O.TIMEOUT, "browser-timeout", BrowserTimeoutError("Page.goto: Timeout 30000ms exceeded.")),
    Failure(O.NOT_STORED, "not-stored", NotStoredError("3 of 10 records were neither stored nor rejected")),
    Failure(O.NAVIGATION_FAILED, "navigation", NavigationError("no element matches #owner")),
    Failure(O.DNS, "dns", CannotResolveHostError("no-such-host.invalid")),
    Failure(O.DNS, "dns", twisted.DNSLookupError("no-such-host.invalid")),
    Failure(O.TIMEOUT, "timeout-after", DownloadTimeoutError("Getting http://x/ took longer than 60.0 seconds.")),
    Failure(O.TIMEOUT, "timeout", DownloadTimeoutError("slow")),
    Failure(O.TIMEOUT, "timeout", TimeoutError()),
    Failure(O.TIMEOUT, "timeout", twisted.TimeoutError()),  # type: ignore[no-untyped-call]
    Failure(O.INVALID, "unknown-exception", ValueError("it took longer than 60.0 seconds")),
    Failure(
        O.NETWORK,
        "no-connection",
        DownloadConnectionRefusedError("Cannot connect to host 127.0.0.1:9 ssl:default [refused]"),
    ),
    Failure(
        O.INVALID,
        "too-large",
        DownloadCancelledError(
            "Received 33554433 bytes which is larger than download max size (33554432) in request <GET http://x/>."
        ),
    ),
    Failure(O.INVALID, "unknown-exception", ValueError("(33554432) in request")),
    Failure(O.INVALID, "cancelled", DownloadCancelledError("Cancelled")),
    Failure(O.NETWORK, "data-loss", ResponseDataLossError()),
    Failure(O.NETWORK, "payload-cut-short", DownloadFailedError("Response payload is not completed: <x>")),
    Failure(O.INVALID, "unknown-exception", ValueError("Response payload is not completed")),
    Failure(O.INVALID, "unreadable", unreadable()),
    Failure(O.INVALID, "unreadable", caused(DownloadFailedError("bad chunk"), HttpProcessingError(message="odd"))),
    Failure(O.NETWORK, "network", DownloadFailedError("Server disconnected")),
    Failure(O.NETWORK, "network", ConnectionResetError("reset by peer")),
    Failure(O.NETWORK, "network", OSError(113, "No route to host")),
    Failure(O.NETWORK, "network", twisted.ConnectionLost()),
    Failure(O.NETWORK, "network", twisted.ConnectError()),  # type: ignore[no-untyped-call]
    Failure(O.INVALID, "unsupported-scheme", UnsupportedURLSchemeError("gopher")),
    Failure(O.INVALID, "unsupported-scheme", NotSupported("gopher")),
    Failure(O.INVALID, "address", AddressError("the address names no host")),
    Failure(O.INVALID, "redirect", RedirectError("it redirects again and again")),
    Failure(O.NETWORK, "encoding", DecodingError("the answer is not gzip as it says")),
    Failure(
        O.INVALID,
        "too-large-inside",
        IgnoreRequest("Ignored (9 B decompressed so far) exceeded DOWNLOAD_MAXSIZE (1048576 B) during decompression."),
    ),
    Failure(O.INVALID, "unknown-exception", ValueError("(1048576 B) during decompression.")),
    Failure(O.POLICY_DENIED, "ignored", IgnoreRequest("Forbidden by robots.txt")),
    Failure(O.INVALID, "unknown-exception", ValueError("a fault of this program: net::ERR_PROXY_CONNECTION_FAILED")),
    *(
        Failure(O.INVALID, "unknown-exception", ValueError(words))
        for words in ("dns_error", "net::ERR_NAME_NOT_RESOLVED", "net::ERR_TIMED_OUT", "net::ERR_EMPTY_RESPONSE")
    ),
    Failure(O.INVALID, "unknown-exception", ValueError("net::ERR_TOO_MANY_REDIRECTS")),
    Failure(O.INVALID, "unknown-exception", ValueError("net::ERR_OUT_OF_MEMORY")),
    Failure(O.INVALID, "unknown-exception", KeyError("x")),
]
