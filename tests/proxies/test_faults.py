"""An error of a proxy is told from one of the site behind it, by all that vendors and the RFC say."""

import pytest
from aiohttp import ClientHttpProxyError, RequestInfo
from httpx2 import ConnectError, ProxyError
from multidict import CIMultiDict, CIMultiDictProxy
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.exceptions import CannotResolveHostError
from yarl import URL

from harvester.proxies.faults import FaultKind, masked, proxy_fault

AUTH, CAPACITY, POLICY, TARGET = FaultKind.AUTH, FaultKind.CAPACITY, FaultKind.POLICY, FaultKind.TARGET
BRD_UNROUTABLE = (
    "brd.superproxy.io; received-status=400; error=destination_ip_unroutable; "
    'details="client-10060: Requested IP is not allocated to this zone; select another"'
)


@pytest.mark.parametrize(
    ("status", "headers", "kind", "outcome"),
    [
        (407, {}, AUTH, "proxy"),
        (407, {"x-brd-err-code": "client_10000", "x-brd-err-msg": "Invalid Auth"}, AUTH, "proxy"),
        (407, {"x-error-description": "FrontierClient limit is reached"}, AUTH, "proxy"),
        (407, {"x-crawlera-error": "bad_proxy_auth"}, AUTH, "proxy"),
        (401, {"zyte-error-type": "/auth/key-not-found"}, AUTH, "proxy"),
        (403, {"x-brd-err-code": "policy_20020", "x-brd-err-msg": "Bad port used"}, POLICY, "proxy"),
        (403, {"x-luminati-error": "Forbidden: target site requires special permission"}, POLICY, "proxy"),
        (403, {"x-brd-error": "Residential Failed (bad_endpoint): restricted, requires KYC"}, POLICY, "proxy"),
        (403, {"x-error-description": "Access to this domain is restricted"}, POLICY, "proxy"),
        (400, {"proxy-status": BRD_UNROUTABLE}, POLICY, "proxy"),
        (502, {"x-brd-err-code": "peer_30002", "x-brd-err-msg": "no peer is available"}, CAPACITY, "proxy"),
        (502, {"x-luminati-error": "No peer available"}, CAPACITY, "proxy"),
        (502, {"x-brd-err-code": "target_40001", "x-brd-err-msg": "could not resolve host"}, TARGET, "dns"),
        (502, {"x-error-description": "The session's IP is not available"}, CAPACITY, "proxy"),
        (525, {"x-error-description": "No exit found"}, CAPACITY, "proxy"),
        (522, {"x-error-description": "Timeout"}, CAPACITY, "proxy"),
        (429, {"zyte-error-type": "/limits/over-user-limit"}, CAPACITY, "proxy"),
        (503, {"zyte-error-type": "/limits/over-global-limit"}, CAPACITY, "proxy"),
        (520, {"zyte-error-type": "/download/temporary-error"}, TARGET, "network"),
        (503, {"x-crawlera-error": "banned"}, TARGET, "blocked"),
        (503, {"x-crawlera-error": "noslaves"}, CAPACITY, "proxy"),
        (502, {"proxy-status": "proxy.test; error=dns_error; rcode=NXDOMAIN"}, TARGET, "dns"),
        (504, {"proxy-status": "proxy.test; error=connection_timeout"}, TARGET, "timeout"),
        (503, {"proxy-status": "proxy.test; error=connection_limit_reached"}, CAPACITY, "proxy"),
        (403, {"proxy-status": "proxy.test; error=http_request_denied"}, POLICY, "proxy"),
        (
            502,
            {"proxy-status": 'a.test; next-hop="x, y; error=dns_error", b.test; error=dns_timeout'},
            TARGET,
            "dns",
        ),
        (500, {"proxy-status": "proxy.test; error=proxy_internal_error"}, CAPACITY, "proxy"),
    ],
)
def test_answers(status: int, headers: dict[str, str], kind: FaultKind, outcome: str) -> None:
    fault = proxy_fault(status, headers)
    assert fault
    assert (fault.kind, fault.outcome) == (kind, outcome)
    assert fault.reason.startswith(f"{kind}: ")


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {}),
        (200, {"proxy-status": "proxy.test; received-status=200"}),
        (404, {}),
        (403, {}),
        (429, {"retry-after": "5"}),
        (502, {}),
        (503, {"proxy-status": "proxy.test; received-status=503"}),
        (503, {"proxy-status": ';;;=,"error'}),
    ],
)
def test_what_the_site_says_is_no_fault_of_the_proxy(status: int, headers: dict[str, str]) -> None:
    assert proxy_fault(status, headers) is None


def refused_tunnel(status: int, **headers: str) -> Exception:
    url = URL("https://site.test/")
    info = RequestInfo(url, "CONNECT", CIMultiDictProxy(CIMultiDict()), url)
    told = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    error = RuntimeError("as the download handler tells it")
    error.__cause__ = ClientHttpProxyError(info, (), status=status, message="Nope", headers=CIMultiDictProxy(told))
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refused_tunnel(407), AUTH),
        (refused_tunnel(403), POLICY),
        (refused_tunnel(403, X_Brd_Err_Code="policy_20040"), POLICY),
        (refused_tunnel(502), CAPACITY),
        (refused_tunnel(502, X_Brd_Err_Msg="no peer"), CAPACITY),
        (refused_tunnel(502, Proxy_Status="p; error=dns_error"), TARGET),
        (refused_tunnel(525), CAPACITY),
        (TunnelError("Could not open CONNECT tunnel with proxy p:1 [{'status': 407, 'reason': b'Auth'}]"), AUTH),
        (TunnelError("Could not open CONNECT tunnel with proxy p:1 [{'status': 502, 'reason': b'Bad'}]"), CAPACITY),
        (ProxyError("407 Proxy Authentication Required"), AUTH),
        (ProxyError("502 Bad Gateway"), CAPACITY),
        (RuntimeError("Page.goto: net::ERR_TUNNEL_CONNECTION_FAILED at https://site.test/"), CAPACITY),
        (RuntimeError("Page.goto: net::ERR_PROXY_CONNECTION_FAILED at https://site.test/"), FaultKind.UNREACHABLE),
    ],
)
def test_refused_tunnels(error: Exception, kind: FaultKind) -> None:
    fault = proxy_fault(0, {}, error)
    assert fault
    assert fault.kind is kind


@pytest.mark.parametrize("error", [CannotResolveHostError("proxy.test"), ConnectError("refused")])
def test_a_proxy_that_is_not_there(error: Exception) -> None:
    fault = proxy_fault(0, {}, error)
    assert fault
    assert fault.kind is FaultKind.UNREACHABLE


def test_an_exception_that_says_nothing_of_a_proxy_is_none_of_its_faults() -> None:
    assert proxy_fault(0, {}, TimeoutError("no answer in 60 seconds")) is None


def test_user_names_and_passwords_are_masked_in_what_is_said() -> None:
    user, plain = "brd-customer-hl_1234-zone-res1-session-x1", "http://ann:word@proxy.test:1"
    said = masked(f"{user} of {plain}\n(customer-bob-cc-US) Basic YW5uOndvcmQ=")
    assert said == "*** of http://***proxy.test:1 (***) ***"
