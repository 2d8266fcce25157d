"""A wish is said to each vendor in that vendor's grammar; what it cannot give is refused before it is asked."""

from base64 import b64encode
from typing import Any

import pytest
from pydantic import ValidationError

from harvester.proxies.endpoints import ProxyAccount, ProxyEndpoint, endpoint_of
from harvester.sites.proxy_spec import Geo, ProxySpec, Tier, Vendor, session_id

BRD, OXY = "brd-customer-c_1234-zone-res1", "customer-ann"
EVERYWHERE: dict[str, str] = {}
NEW_YORK = {"country": "us", "state": "ny", "city": "new_york", "zip": "10001"}


def spec(vendor: str, tier: str = "residential", geo: dict[str, str] = EVERYWHERE, **more: Any) -> ProxySpec:
    return ProxySpec(vendor=Vendor(vendor), tier=Tier(tier), geo=Geo(**geo), **more)


@pytest.mark.parametrize(
    ("wish", "user", "expected"),
    [
        (spec("brightdata"), BRD, BRD),
        (spec("brightdata", "datacenter", {"country": "us"}), BRD, f"{BRD}-country-us"),
        (spec("brightdata", "isp", {"country": "eu"}), BRD, f"{BRD}-country-eu"),
        (spec("brightdata", "mobile", {"country": "de", "city": "berlin"}), BRD, f"{BRD}-country-de-city-berlin"),
        (spec("brightdata", geo=NEW_YORK), BRD, f"{BRD}-country-us-state-ny-city-newyork-zip-10001"),
        (spec("brightdata", session_id="a1b2"), BRD, f"{BRD}-session-a1b2"),
        (spec("brightdata", geo={"country": "us"}, session_id="a1b2"), BRD, f"{BRD}-country-us-session-a1b2"),
        (spec("brightdata", "isp", session_id="203.0.113.7", strict=True), BRD, f"{BRD}-ip-203.0.113.7"),
        (spec("oxylabs"), OXY, OXY),
        (spec("oxylabs", "mobile", {"country": "us"}), OXY, f"{OXY}-cc-US"),
        (
            spec("oxylabs", geo={"country": "us", "state": "new_york", "city": "new_york"}),
            OXY,
            f"{OXY}-cc-US-st-us_new_york-city-new_york",
        ),
        (spec("oxylabs", session_id="a1b2"), OXY, f"{OXY}-sessid-a1b2"),
        (spec("oxylabs", session_id="a1b2", session_ttl=30), OXY, f"{OXY}-sessid-a1b2-sesstime-30"),
        (spec("oxylabs", session_id="a1b2", session_ttl=1440), OXY, f"{OXY}-sessid-a1b2-sesstime-1440"),
        (spec("oxylabs", session_id="a1b2", strict=True), OXY, f"{OXY}-sessid_oneip-a1b2"),
        (spec("zyte", geo={"country": "us"}, session_id="a1b2"), "api-key", "api-key"),
        (spec("list", "datacenter", {"country": "us"}, session_id="a1b2", strict=True), "ann", "ann"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_user_names_follow_the_grammar_of_the_vendor(wish: ProxySpec, user: str, expected: str) -> None:
    way_out = endpoint_of(wish, ProxyAccount("http://proxy.test:1", user, "word"))
    assert (way_out.address, way_out.user) == ("http://proxy.test:1", expected)
    assert way_out.authorization == "Basic " + b64encode(f"{expected}:word".encode()).decode()


def test_zyte_is_told_in_headers() -> None:
    account = ProxyAccount("http://api.zyte.com:8011", "api-key", "")
    plain, german = (
        endpoint_of(spec("zyte", "datacenter"), account),
        endpoint_of(spec("zyte", geo={"country": "de"}), account),
    )
    assert plain.headers == {"Zyte-IPType": "datacenter"}
    assert german.headers == {"Zyte-IPType": "residential", "Zyte-Geolocation": "DE"}
    assert german.authorization == "Basic " + b64encode(b"api-key:").decode()
    one, same, other = (endpoint_of(spec("zyte", session_id=name), account).headers for name in ("a1", "a1", "b2"))
    assert one["Zyte-Session-ID"] == same["Zyte-Session-ID"] != other["Zyte-Session-ID"]


def test_a_password_may_have_any_letters() -> None:
    way_out = endpoint_of(spec("list"), ProxyAccount("http://proxy.test:1", "änn", "p€ss"))
    assert way_out.authorization == "Basic " + b64encode("änn:p€ss".encode()).decode()


def test_a_proxy_without_a_user_gets_no_authorization() -> None:
    assert endpoint_of(spec("list"), ProxyAccount("http://proxy.test:1")).authorization == ""


@pytest.mark.parametrize(
    ("vendor", "wish", "complaint"),
    [
        ("brightdata", {"tier": "residential", "geo": {"state": "ny"}}, "country"),
        ("brightdata", {"tier": "datacenter", "geo": {"country": "us", "state": "ny"}}, "residential"),
        ("brightdata", {"tier": "mobile", "geo": {"country": "us", "zip": "10001"}}, "residential"),
        ("brightdata", {"tier": "residential", "geo": {"country": "us", "state": "new_york"}}, "letters"),
        ("brightdata", {"tier": "residential", "session_id": "a1", "session_ttl": 5}, "session time"),
        ("brightdata", {"tier": "residential", "session_id": "a1", "strict": True}, "pins"),
        ("brightdata", {"tier": "residential", "geo": {"country": "US"}}, "country"),
        ("brightdata", {"tier": "residential", "geo": {"country": "us", "city": "new york"}}, "city"),
        ("brightdata", {"tier": "residential", "session_id": "a-b"}, "session_id"),
        ("oxylabs", {"tier": "residential", "geo": {"country": "us", "zip": "10001"}}, "zip"),
        ("oxylabs", {"tier": "residential", "geo": {"country": "de", "state": "hessen"}}, "states"),
        ("oxylabs", {"tier": "residential", "session_id": "a1", "session_ttl": 1441}, "session_ttl"),
        ("oxylabs", {"tier": "residential", "session_ttl": 5}, "session_id"),
        ("zyte", {"tier": "mobile"}, "datacenter.*residential"),
        ("zyte", {"tier": "residential", "geo": {"country": "us", "city": "reno"}}, "countries"),
        ("zyte", {"tier": "residential", "geo": {"country": "us", "zip": "10001"}}, "countries"),
        ("zyte", {"tier": "residential", "session_id": "a1", "strict": True}, "strict"),
        ("list", {"tier": "residential", "geo": {"country": "us", "city": "reno"}}, "countries"),
        ("list", {"tier": "residential", "geo": {"country": "us", "zip": "10001"}}, "countries"),
        ("nobody", {"tier": "residential"}, "vendor"),
        ("list", {"tier": "cheap"}, "tier"),
    ],
)
def test_what_a_vendor_cannot_give_is_refused(vendor: str, wish: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ProxySpec(vendor=vendor, **wish)


def test_no_repr_shows_a_credential() -> None:
    told = repr(ProxyAccount("http://proxy.test:1", "ann", "word")) + repr(
        ProxyEndpoint("http://proxy.test:1", "ann", "word")
    )
    assert "ann" not in told
    assert "word" not in told


def test_sessions_differ_by_spider_account_and_shard_and_by_nothing_else() -> None:
    ids = [session_id(*each) for each in (("a", "b", 0), ("a", "b", 1), ("a", "c", 0), ("d", "b", 0), ("ab", "", 0))]
    assert len(set(ids)) == 5
    assert session_id("a", "b", 0) == ids[0]
    assert all(len(each) == 16 and each.isalnum() and each == each.lower() for each in ids)
