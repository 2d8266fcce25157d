"""What an entry says of rendering is refused when it cannot be meant, and blocks what it names."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from scrapy import Request

from harvester.browser.browser import _proxy
from harvester.browser.render_options import render_options_of
from harvester.browser.request_filter import RequestFilter
from harvester.browser.steps import secret_of
from harvester.config import Config
from harvester.exceptions import NavigationError, UsageError
from harvester.masking import mask
from harvester.middlewares.browser import is_rendered
from harvester.sites import Registry, Site
from harvester.sites.browser import BrowserStep, RenderOptions

PAGE = "https://records.example.gov/list"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({}, "step"),
        ({"click": "#a", "wait_for": "#b"}, "step"),
        ({"click": "#a", "value": "x"}, "fill"),
        ({"fill": "#a", "value": "x", "secret": "smtp_password"}, "value or .*secret"),
        ({"scroll": "sideways"}, "end"),
        ({"open": "file:///etc/passwd"}, "pattern"),
        ({"evaluate": "alert(1)"}, "Extra inputs"),
    ],
)
def test_a_step_that_cannot_be_meant_is_refused(step: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        BrowserStep.model_validate(step)


def test_the_secret_of_a_step_may_stand_in_the_file_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("HARVESTER_COUNTY_WORD=open sesame\n")
    monkeypatch.setitem(Config.model_config, "env_file", str(tmp_path / ".env"))
    assert secret_of(Config(), "county_word") == "open sesame"
    assert "sesame" not in mask("it was open sesame")
    monkeypatch.setenv("HARVESTER_COUNTY_WORD", "abracadabra")
    assert secret_of(Config(), "county_word") == "abracadabra"
    with pytest.raises(NavigationError, match="HARVESTER_OTHER_WORD"):
        secret_of(Config(), "other_word")


def test_a_step_that_waits_for_what_is_not_captured_is_refused() -> None:
    step = {"captured": "*/api/*"}
    with pytest.raises(ValidationError, match="capture"):
        RenderOptions.model_validate({"steps": [step]})
    assert RenderOptions.model_validate({"steps": [step], "capture": ["*/api/*"]}).steps == (
        BrowserStep(captured="*/api/*"),
    )


def test_what_a_step_types_is_not_in_its_words() -> None:
    assert "open sesame" not in str(BrowserStep(fill="#word", value="open sesame"))


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
    request_filter = RequestFilter(RenderOptions(block_hosts=("example.net",)), PAGE)
    assert request_filter.refuses(url, kind) is refused


def test_a_site_that_is_in_the_list_of_trackers_may_ask_its_own_hosts() -> None:
    request_filter = RequestFilter(RenderOptions(), "https://www.facebook.com/page")
    assert not request_filter.refuses("https://www.facebook.com/api/graphql", "xhr")


def test_the_request_has_the_last_word_on_whether_and_how_it_is_rendered() -> None:
    site = Site(name="county", hosts=("records.example.gov",), browser=RenderOptions(render=True, device="mobile"))
    assert not is_rendered(Request(PAGE))
    assert is_rendered(Request(PAGE, meta={"render": True}))
    options = render_options_of(Request(PAGE, meta={"rendering": {"steps": [{"scroll": 2}]}}), site)
    assert (options.device, options.steps) == ("mobile", (BrowserStep(scroll=2),))
    with pytest.raises(UsageError, match=r"steps\.0"):
        render_options_of(Request(PAGE, meta={"rendering": {"steps": [{"scroll": "up"}]}}), site)
    assert not Registry().named("other").browser.render


@pytest.mark.parametrize("place", ["10.0.0.1:8080", "[2001:db8::1]:8080", "proxy.example"])
def test_chromium_is_told_the_place_of_a_proxy_as_it_is_written(place: str) -> None:
    assert _proxy(f"http://{place}", None) == {"server": f"http://{place}"}
    told = {"server": f"https://{place}", "username": "ann", "password": "p@ss"}
    assert _proxy(f"https://ann:p%40ss@{place}", None) == told
