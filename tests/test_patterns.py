"""Patterns that users write end after a bound of time, each with an outcome and a sentence."""

import pytest
from pydantic import TypeAdapter, ValidationError
from scrapy import Request
from scrapy.http import HtmlResponse

from harvester.exceptions import TooCostlyError
from harvester.identities.login_methods import LoginFailed, shows
from harvester.outcomes import classify
from harvester.patterns import BoundedPattern, Expression
from harvester.sites.identities import Sign
from harvester.sites.outcomes import SiteOutcomes

ENDLESS = r"(a|aa)+$"
URL = f"https://county.example/{'a' * 60}!"
PAGE = HtmlResponse(URL, body=b"a" * 60 + b"!", encoding="utf-8", request=Request(URL))


def test_a_search_without_end_is_ended_and_others_are_as_those_of_re() -> None:
    with pytest.raises(TooCostlyError, match=r"\b0\.2 s"):
        BoundedPattern(ENDLESS).search("a" * 60 + "!")
    assert BoundedPattern(r"(?i:PARCEL)\s+(\d+)").search("a parcel 12")[1] == "12"
    assert BoundedPattern("denied", ignore_case=True).fullmatch("DENIED")
    assert BoundedPattern("denied").search("DENIED") is None


@pytest.mark.parametrize("condition", [{"pattern": [ENDLESS]}, {"url": [r"/(a|aa)+$"]}, {"pattern": [r"(a|aa)+$|\{"]}])
def test_a_page_at_which_a_rule_of_the_site_takes_too_long_is_invalid(condition: dict[str, list[str]]) -> None:
    own = SiteOutcomes.model_validate({"rules": [{"name": "own", "outcome": "empty", **condition}]}).own
    verdict = classify(PAGE, PAGE.request, own)
    assert (verdict.outcome, verdict.rule) == ("invalid", "own")
    assert " 0.2 s" in verdict.reason


def test_a_rule_of_the_site_matches_as_the_common_ones_do() -> None:
    own = SiteOutcomes.model_validate({"rules": [{"name": "own", "outcome": "empty", "pattern": ["A{60}!"]}]}).own
    assert classify(PAGE, PAGE.request, own).outcome == "empty"


@pytest.mark.parametrize("sign", [Sign(text=ENDLESS), Sign(url=r"/(a|aa)+$")])
def test_a_sign_that_takes_too_long_to_find_says_neither_yes_nor_no(sign: Sign) -> None:
    with pytest.raises(LoginFailed, match=r"\b0\.2 s"):
        shows(sign, PAGE, None)


def test_what_is_no_expression_is_refused_when_it_is_read() -> None:
    with pytest.raises(ValidationError, match="regular expression"):
        TypeAdapter(Expression).validate_python("(a")
