"""Decides from a response or an exception whether the proxy or the site behind it failed. Pure.

A vendor's error looks like the site's: only a header shows whose 403 or 502 it is. With https a proxy answers for
itself only while the tunnel is opened, and that answer arrives as an exception.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from scrapy.http import Response


class FaultKind(StrEnum):
    """The kind of a proxy's failure, and its consequence."""

    AUTH = "proxy_auth"
    """User or password are refused, or the account is used up: the proxy is useless until a person repairs it."""
    CAPACITY = "proxy_capacity"
    """The proxy has no exit now: retry later."""
    POLICY = "proxy_policy"
    """The proxy forbids the request: never retry it the same way."""
    UNREACHABLE = "proxy_unreachable"
    """The proxy does not answer."""
    TARGET = "target"
    """The proxy reports a failure of the site."""


class ProxyFault(NamedTuple):
    """A failure that the proxy reported."""

    kind: FaultKind
    said: str
    """The proxy's message, without credentials."""
    outcome: str = "proxy"
    """Name of the outcome (outcomes.Outcome); not `proxy` if the failure is the site's."""

    @property
    def reason(self) -> str:
        return f"{self.kind}: {self.said}"


_HEADERS = (
    "x-brd-err-code", "x-brd-err-msg", "x-brd-error", "x-luminati-error",
    "x-error-description", "zyte-error-type", "x-crawlera-error",
)  # fmt: skip
"""Error headers of the vendors, beside Proxy-Status."""

_WORDS = {
    FaultKind.AUTH: r"auth|credential|password|wrong_customer|customer_not|zone_not_found|zone not found|account"
    r"|suspend|traffic (limit|exceeded)|no traffic|balance|payment",
    FaultKind.TARGET: r"target|resolve|dns|host not found|/download/|/website-ban|\bbanned\b",
    FaultKind.POLICY: r"policy|forbidden|restricted|not allowed|prohibited|denied|\bkyc\b|bad_endpoint|bad_port"
    r"|not allocated|bad_request|invalid",
    FaultKind.CAPACITY: r"peer|exit|capacity|cooling|noslaves|limit|too many|timeout|timed out|session|gateway",
}
_SAYS = {kind: re.compile(words, re.IGNORECASE).search for kind, words in _WORDS.items()}

_PROXY_STATUS = {
    # RFC 9209, section 2.3
    "dns_timeout": (FaultKind.TARGET, "dns"),
    "dns_error": (FaultKind.TARGET, "dns"),
    "destination_not_found": (FaultKind.TARGET, "network"),
    "destination_unavailable": (FaultKind.TARGET, "network"),
    "destination_ip_prohibited": (FaultKind.POLICY, "proxy"),
    "destination_ip_unroutable": (FaultKind.TARGET, "network"),
    "connection_refused": (FaultKind.TARGET, "network"),
    "connection_terminated": (FaultKind.TARGET, "network"),
    "connection_timeout": (FaultKind.TARGET, "timeout"),
    "connection_read_timeout": (FaultKind.TARGET, "timeout"),
    "connection_write_timeout": (FaultKind.TARGET, "timeout"),
    "connection_limit_reached": (FaultKind.CAPACITY, "proxy"),
    "tls_protocol_error": (FaultKind.TARGET, "network"),
    "tls_certificate_error": (FaultKind.TARGET, "network"),
    "tls_alert_received": (FaultKind.TARGET, "network"),
    "http_request_denied": (FaultKind.POLICY, "proxy"),
    "http_response_timeout": (FaultKind.TARGET, "timeout"),
    "proxy_internal_response": (FaultKind.CAPACITY, "proxy"),
    "proxy_internal_error": (FaultKind.CAPACITY, "proxy"),
    "proxy_configuration_error": (FaultKind.POLICY, "proxy"),
    "proxy_loop_detected": (FaultKind.POLICY, "proxy"),
}
_CLIENT_CODE = re.compile(r"\b(client|policy|peer|proxy|target)[_-]\d+", re.IGNORECASE).search
_BY_CODE = {
    "client": FaultKind.POLICY,
    "policy": FaultKind.POLICY,
    "peer": FaultKind.CAPACITY,
    "proxy": FaultKind.CAPACITY,
    "target": FaultKind.TARGET,
}
_TUNNEL = re.compile(r"CONNECT tunnel.*?'status': (\d{3})", re.DOTALL).search
_UNREACHABLE = ("ClientProxyConnectionError", "CannotResolveHostError", "ConnectError")
"""Exceptions of the download handlers, which connect to the proxy only; the proxy connects to the site."""
_NET_ERRORS = {
    "ERR_PROXY_CONNECTION_FAILED": FaultKind.UNREACHABLE,
    "ERR_TUNNEL_CONNECTION_FAILED": FaultKind.CAPACITY,
    "ERR_INVALID_AUTH_CREDENTIALS": FaultKind.AUTH,
    "ERR_PROXY_AUTH_UNSUPPORTED": FaultKind.AUTH,
    "ERR_PROXY_CERTIFICATE_INVALID": FaultKind.POLICY,
}
"""Error codes of Chromium, which gives no details."""
_NET_ERROR = re.compile("|".join(_NET_ERRORS)).search
_CREDENTIALS = re.compile(
    r"(?:brd-|lum-)?customer-[^\s:@,;'\"()]+|(?<=://)[^/@\s]+@|Basic [A-Za-z0-9+/=]{4,}", re.IGNORECASE
).sub
MOST_SAID = 200
"""Maximum number of characters of a proxy's message."""


def proxy_fault(status: int, headers: Mapping[str, str], exception: BaseException | None = None) -> ProxyFault | None:
    """Returns the failure of a request that went to a proxy. None if the proxy carried the site's response, or if
    nothing shows who failed.

    `status` and `headers` (names in lower case) are from the response; with an exception they are 0 and empty.
    """
    if exception is not None:
        return _of_exception(exception)
    return _of_answer(status, headers)


def fault_of_response(response: Response) -> ProxyFault | None:
    """Returns the fault that a response of the proxy itself reports, or None."""
    headers = {
        name.decode("latin-1").lower(): b", ".join(values).decode("latin-1")
        for name, values in response.headers.items()
    }
    return proxy_fault(response.status, headers)


def _of_answer(status: int, headers: Mapping[str, str]) -> ProxyFault | None:
    said = masked("; ".join(dict.fromkeys(headers[name] for name in _HEADERS if headers.get(name))))
    if status == 407:
        return ProxyFault(FaultKind.AUTH, said or "HTTP 407")
    if status < 400:
        return None
    told = _of_proxy_status(headers.get("proxy-status", ""))
    if not said:
        return told
    if told and told.kind is not FaultKind.TARGET:
        return told
    kind = _kind_of(status, said)
    outcome = "proxy"
    if kind is FaultKind.TARGET:
        outcome = told.outcome if told else _outcome_at_target(said)
    return ProxyFault(kind, said, outcome)


def _kind_of(status: int, said: str) -> FaultKind:
    if _SAYS[FaultKind.AUTH](said):
        return FaultKind.AUTH
    if code := _CLIENT_CODE(said):
        return _BY_CODE[code[1].lower()]
    refused = status in (400, 401, 403, 451)
    kinds = [FaultKind.TARGET, FaultKind.POLICY, FaultKind.CAPACITY]
    for kind in kinds[1::-1] if refused else kinds:
        if _SAYS[kind](said):
            return kind
    return FaultKind.POLICY if refused else FaultKind.CAPACITY


def _outcome_at_target(said: str) -> str:
    words = said.lower()
    if "ban" in words:
        return "blocked"
    if "dns" in words or "resolve" in words or "host not found" in words:
        return "dns"
    return "timeout" if "time" in words else "network"


def _of_proxy_status(value: str) -> ProxyFault | None:
    """Reads RFC 9209: a member for each proxy on the way, the nearest to the site first, with parameters after
    semicolons."""
    for member in _split(value, ","):
        told = dict(_parameters(member))
        error = told.get("error", "").lower()
        if not error:
            continue
        kind, outcome = _PROXY_STATUS.get(error, (FaultKind.CAPACITY, "proxy"))
        details = told.get("details", "")
        if (code := _CLIENT_CODE(details)) and (kind := _BY_CODE[code[1].lower()]) is not FaultKind.TARGET:
            outcome = "proxy"  # the vendor's own code is more exact than the word next to it
        if told.get("received-status") == "407":
            kind, outcome = FaultKind.AUTH, "proxy"
        return ProxyFault(kind, masked(f"{error} {details}".strip()), outcome)
    return None


def _parameters(member: str) -> Iterator[tuple[str, str]]:
    for parameter in _split(member, ";")[1:]:
        name, _, value = parameter.partition("=")
        yield name.strip().lower(), value.strip().strip('"')


def _split(text: str, separator: str) -> list[str]:
    """Splits a structured field at separators that are not in quotes."""
    return re.findall(rf'(?:"[^"]*"|[^{separator}"])+', text)


def _of_exception(error: BaseException) -> ProxyFault | None:
    for each in _chain(error):
        name = type(each).__name__
        if name == "ClientHttpProxyError":  # aiohttp
            headers = {key.lower(): value for key, value in (getattr(each, "headers", None) or {}).items()}
            return _of_tunnel(getattr(each, "status", 0), headers, str(getattr(each, "message", "")))
        if name == "ProxyError" and (status := re.match(r"\d{3}\b", str(each))):  # httpx
            return _of_tunnel(int(status[0]), {}, str(each)[3:])
        if name == "TunnelError" and (status := _TUNNEL(str(each))):  # Scrapy on Twisted
            return _of_tunnel(int(status[1]), {}, "")
        if net := _NET_ERROR(str(each)):
            return ProxyFault(_NET_ERRORS[net[0]], net[0])
        if name in _UNREACHABLE:
            return ProxyFault(FaultKind.UNREACHABLE, "no connection to the proxy")
    return None


def _of_tunnel(status: int, headers: Mapping[str, str], message: str) -> ProxyFault:
    """Returns the fault for a refused tunnel. It is always the proxy's: the site was not reached yet."""
    said = f"HTTP {status} {masked(message)}".strip() + " on CONNECT"
    if told := _of_answer(status, headers):
        return told._replace(said=f"{said}: {told.said}"[:MOST_SAID])
    if status in (400, 401, 403, 404, 405, 501):
        return ProxyFault(FaultKind.POLICY, said)
    return ProxyFault(FaultKind.CAPACITY, said)


def _chain(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__


def masked(text: str) -> str:
    """Returns the text on one line, short, and without user names, because these hold customer ids."""
    return _CREDENTIALS("***", " ".join(text.split()))[:MOST_SAID]
