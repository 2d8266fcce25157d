"""What is known to be secret stands in no text, in whatever form a site echoes it."""

import json
import logging
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from html import escape
from io import StringIO
from urllib.parse import quote, quote_plus, urlencode

import pytest

from harvester.config import load_config
from harvester.frontier.in_flight import InFlight
from harvester.masking import MOST_PASSING, Mask, mask
from harvester.outcomes import classify_exception
from harvester.outcomes.evidence import excerpt

SECRET = 'p&ss "wörd"/<7>+%'
TOKEN = "eyJhbGciOi.payload-1.signature_2"


@pytest.mark.parametrize(
    "echoed",
    [
        str,
        quote,
        quote_plus,
        lambda value: quote(value, safe=""),
        lambda value: re.sub("%..", lambda each: each[0].lower(), quote(value, safe="")),
        lambda value: quote(quote(value, safe="")),
        lambda value: urlencode({"next": value}),
        escape,
        lambda value: escape(value, quote=False),
        lambda value: escape(value).replace("&#x27;", "&#39;"),
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False),
        lambda value: json.dumps(value).replace("/", "\\/"),
        repr,
    ],
)
@pytest.mark.parametrize("secret", [SECRET, TOKEN, "it's-me-0815"])
def test_secret_is_masked_in_each_form_in_which_it_may_be_echoed(secret: str, echoed: Callable[[str], str]) -> None:
    known = Mask()
    known.add(secret)
    form = echoed(secret)
    masked = known(f"HTTP 403: {form} is not let in")
    assert masked.startswith("HTTP 403: ")
    assert masked.endswith(" is not let in")
    assert "***" in masked
    assert len(masked) <= len("HTTP 403:  is not let in") + len('next="***"')


@pytest.mark.parametrize("before", ["", "a", "ab", "user:", "user2:"])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_base64_of_a_longer_text_does_not_show_the_secret_in_it(before: str, encode: Callable[[bytes], bytes]) -> None:
    known = Mask()
    known.add(SECRET)
    encoded = encode(f"{before}{SECRET} and more".encode()).decode()
    masked = known(encoded)
    assert len(masked) < len(encoded) - len(SECRET)
    assert "***" in masked


def test_secrets_that_overlap_leave_no_part() -> None:
    known = Mask()
    known.add("abcdefgh", "efghijkl", "abcdefghijkl-longer")
    assert known("<abcdefghijkl>") == "<***>"
    assert known("<abcdefghijkl-longer>") == "<***>"
    assert known("abcdefgh, abcdefgh") == "***, ***"


def test_text_that_is_cut_shows_no_part_of_a_secret() -> None:
    known = Mask()
    known.add(TOKEN)
    for length in range(400):
        assert TOKEN[:6] not in known("x" * length + TOKEN * 40, 100)
    assert known("y" * 10_000, 100) == "y" * 100
    assert len(known("y" * 99 + TOKEN, 100)) == 100


def test_short_and_common_values_mask_nothing() -> None:
    known = Mask()
    known.add("", "ab", "admin", "Password")
    known.add_passing("", "12345", "true", "en-US", "accepted", "1732281588", "2026-11-22", "text/html")
    known.add_passing("www.county.example", "https://county.example/", "127.0.0.1:8080")
    text = "ab admin Password 12345 true en-US accepted 1732281588 2026-11-22 text/html www.county.example"
    assert known(text) == text


def test_short_name_is_masked_as_a_word_only() -> None:
    known = Mask()
    known.add("ann")
    assert known("ann cannot: user=ann, 'ann'") == "*** cannot: user=***, '***'"


def test_newest_cookies_are_known_and_names_and_passwords_for_ever() -> None:
    known = Mask()
    known.add("correct-horse-1")
    values = [f"cookie-{number:04}-x" for number in range(MOST_PASSING + 10)]
    for value in values[:MOST_PASSING]:
        known.add_passing(value)
    known.add_passing(values[0])  # it is set again
    known.add_passing("correct-horse-2", *values[MOST_PASSING:])
    text = " ".join(["correct-horse-1", *values])
    assert known(text).count("***") == 1 + MOST_PASSING - 1
    assert known(values[-1]) == known("correct-horse-1") == "***"


def test_forms_are_made_once_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    from harvester import masking

    made: list[str] = []
    forms_of = masking._forms_of
    monkeypatch.setattr(masking, "_forms_of", lambda value: made.append(value) or forms_of(value))  # type: ignore[func-returns-value]
    known = Mask()
    for _ in range(3):
        known.add_passing("cookie-1", "cookie-2")
        known("cookie-1, cookie-2")
    assert made == ["cookie-1", "cookie-2"]


def test_what_is_said_of_failures_holds_no_secret() -> None:
    mask.add(SECRET)
    said = f"<p>{SECRET}</p>" * 50
    for text in (
        excerpt(said),
        classify_exception(ValueError(said)).reason,
        classify_exception(OSError(111, said)).told(),
    ):
        assert SECRET not in text
        assert "***" in text
    lease = InFlight("1", "county")
    lease.failed_by(KeyError(said))
    assert lease.error
    assert SECRET not in lease.error


def test_log_lines_and_tracebacks_hold_no_secret_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://someone:correct%2Fhorse@127.0.0.1:1/0")
    monkeypatch.setenv("MONGODB_URI", "mongodb://writer:battery-staple@a:1,b:2/?tls=true")
    monkeypatch.setenv("HARVESTER_SMTP_PASSWORD", "of-the-post")
    monkeypatch.setenv("HARVESTER_ALERT_SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/T0/B0/Zx81kLmN0p")
    load_config()
    mask.add_passing(*(f"cookie-{number:04}-x" for number in range(MOST_PASSING + 10)))
    secrets = ["correct/horse", "correct%2Fhorse", "battery-staple", "of-the-post", "Zx81kLmN0p"]
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("tests.masking")
    logger.addHandler(handler)
    try:
        for secret in secrets:
            logger.warning("it says %s", secret)
            logger.warning("it raises", exc_info=ValueError(secret))
    finally:
        logger.removeHandler(handler)
    written = stream.getvalue()
    assert written.count("it says ***") == written.count("ValueError: ***") == len(secrets)
    assert [secret for secret in secrets if secret in written] == []
