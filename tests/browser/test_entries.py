"""What an entry says of rendering is refused when it cannot be meant, and blocks what it names."""

from typing import Any

import pytest
from pydantic import ValidationError
from scrapy import Request

from harvester.browser.render_options import render_options_of
from harvester.browser.request_filter import RequestFilter
from harvester.exceptions import UsageError
from harvester.middlewares.browser import is_rendered
from harvester.sites import Registry, Site
from harvester.sites.browser import RenderOptions, Step

PAGE = "https://records.example.gov/list"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({}, "a step names one of"),
        ({"click": "#a", "wait_for": "#b"}, "a step names one of"),
        ({"click": "#a", "value": "x"}, "value and secret belong to fill"),
        ({"fill": "#a", "value": "x", "secret": "smtp_password"}, "a value or a secret"),
        ({"scroll": "sideways"}, "end"),
        ({"open": "file:///etc/passwd"}, "pattern"),
        ({"evaluate": "alert(1)"}, "Extra inputs"),
    ],
)
def test_a_step_that_cannot_be_meant_is_refused(step: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Step.model_validate(step)


def test_a_step_that_waits_for_what_is_not_captured_is_refused() -> None:
    step = {"captured": "*/api/*"}
    with pytest.raises(ValidationError, match="capture"):
        RenderOptions.model_validate({"steps": [step]})
    assert RenderOptions.model_validate({"steps": [step], "capture": ["*/api/*"]}).steps == (Step(captured="*/api/*"),)


def test_what_a_step_types_is_not_in_its_words() -> None:
    assert "open sesame" not in str(Step(fill="#word", value="open sesame"))


@pytest.mark.parametrize(
    ("url", "kind", "refused"),
    [
        (f"{PAGE}/a.png", "image", True),
        (f"{PAGE}/a.css", "stylesheet", False),
        ("https://www.google-analytics.com/collect", "fetch", True),
        ("https://notgoogle-analytics.com/", "fetch", False),
        ("https://ads.example.net/x.js", "script", True),
        ("https://cdn.example.org/app.js", "script", False),
    ],
)
def test_pictures_trackers_and_named_hosts_are_not_asked(url: str, kind: str, refused: bool) -> None:
    blocker = RequestFilter(RenderOptions(block_hosts=("example.net",)), PAGE)
    assert blocker.refuses(url, kind) is refused


def test_a_site_that_is_in_the_list_of_trackers_may_ask_its_own_hosts() -> None:
    blocker = RequestFilter(RenderOptions(), "https://www.facebook.com/page")
    assert not blocker.refuses("https://www.facebook.com/api/graphql", "xhr")


def test_the_request_has_the_last_word_on_whether_and_how_it_is_rendered() -> None:
    site = Site(name="county", hosts=("records.example.gov",), browser=RenderOptions(render=True, device="mobile"))
    assert not is_rendered(Request(PAGE))
    assert is_rendered(Request(PAGE, meta={"render": True}))
    wished = render_options_of(Request(PAGE, meta={"rendering": {"steps": [{"scroll": 2}]}}), site)
    assert (wished.device, wished.steps) == ("mobile", (Step(scroll=2),))
    with pytest.raises(UsageError, match=r"steps\.0"):
        render_options_of(Request(PAGE, meta={"rendering": {"steps": [{"scroll": "up"}]}}), site)
    assert not Registry().named("other").browser.render
