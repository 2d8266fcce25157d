"""The settings for a site whose pages a browser renders."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harvester.sites.part import Part

_ACTIONS = ("open", "wait_for", "click", "fill", "scroll", "until", "captured", "pause_s")

Selector = Annotated[str, Field(min_length=1, max_length=500)]
"""A CSS selector."""


class BrowserStep(Part):
    """One action on a page. It names exactly one."""

    open: str | None = Field(None, pattern=r"^https?://[^/\s]+", max_length=2000)
    """Opens another page."""
    wait_for: Selector | None = None
    """Waits until the element is visible."""
    click: Selector | None = None
    fill: Selector | None = None
    """A field of a form, which gets `value` or `secret`."""
    value: str = Field("", max_length=10_000)
    secret: str = Field("", pattern=r"^([a-z][a-z0-9_]*)?$")
    """Name of a setting without its HARVESTER_, such as `bluesky_app_password`; instead of a value."""
    scroll: Annotated[int, Field(ge=1, le=1000)] | Literal["end"] | None = None
    """Number of screens to scroll down, or "end": until the page stops growing."""
    until: Selector | None = None
    """Scrolls until the element is there."""
    captured: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Scrolls until the last captured response with an address like this (`*` for anything) ends its list: JSON without
    a `cursor`. Also ends when the latest captured response is an error."""
    pause_s: float | None = Field(None, ge=0, le=60)
    most: int = Field(200, ge=1, le=10_000)
    """Maximum number of screens for `scroll = "end"` and `until`."""
    timeout_s: float = Field(15.0, gt=0, le=300)
    """Seconds that this step may take."""
    optional: bool = False
    """True if its failure does not matter, as for a banner that is not always there."""

    @model_validator(mode="after")
    def _one_action(self) -> "BrowserStep":
        named = [action for action in _ACTIONS if getattr(self, action) is not None]
        if len(named) != 1:
            raise ValueError(f"a step names one of {', '.join(_ACTIONS)}" + (f", not {named}" if named else ""))
        if (self.value or self.secret) and self.fill is None:
            raise ValueError("value and secret belong to fill")
        if self.value and self.secret:
            raise ValueError("fill takes a value or a secret, not both")
        return self

    @property
    def action(self) -> str:
        """The name of the action."""
        return next(action for action in _ACTIONS if getattr(self, action) is not None)

    def __str__(self) -> str:
        return f"{self.action} {getattr(self, self.action)}"


class RenderOptions(Part):
    """The table `[<site>.browser]`. A request's meta["rendering"] overrides single keys."""

    render: bool = False
    """True if a browser renders the site's pages; a request's meta["render"] overrides it."""
    steps: tuple[BrowserStep, ...] = Field((), max_length=200)
    """Steps to run in this order after the page has loaded."""
    capture: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = ()
    """Addresses, with `*` for anything, whose XHR and fetch responses the callback gets in
    response.meta["captured"]."""
    judge_captured: bool = False
    """True if the page gets the outcome of a captured response that is not ok."""
    most_captured: int = Field(500, ge=1, le=10_000)
    """Maximum number of captured responses of a page; scrolling ends there."""
    most_captured_mb: float = Field(32.0, gt=0)
    """Maximum megabytes of captured responses."""
    block: tuple[Literal["image", "font", "media", "stylesheet", "script"], ...] = ("image", "font", "media")
    """Resource types that are not fetched."""
    block_trackers: bool = True
    block_hosts: tuple[Annotated[str, Field(pattern=r"^[a-z0-9.-]+$")], ...] = ()
    """Further hosts, with their subdomains, that are never requested."""
    device: Literal["desktop", "mobile"] = "desktop"
    locale: str = Field("en-US", pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")
    time_zone: str = Field("", pattern=r"^([A-Za-z_]+(/[A-Za-z0-9_+-]+)*)?$")
    """Time zone such as `America/New_York`; empty for this machine's."""
    session: str = Field("", pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$")
    """Name of the cookies and local storage that are saved for the next page and run; empty to save none."""
    human: bool = False
    """True if typing and scrolling take as long as a person needs."""
    timeout_s: float = Field(45.0, gt=0, le=600)
    """Seconds that a page may take, with its steps."""

    @model_validator(mode="after")
    def _captures(self) -> "RenderOptions":
        if not self.capture and any(step.captured is not None for step in self.steps):
            raise ValueError("a step `captured` sees what `capture` names; name something there")
        return self
