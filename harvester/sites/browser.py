"""Whether and how a browser renders a site's pages."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harvester.sites.part import Part

_ACTIONS = ("open", "wait_for", "click", "fill", "scroll", "until", "captured", "pause_s")

Selector = Annotated[str, Field(min_length=1, max_length=500)]
"""A CSS selector."""


class BrowserStep(Part):
    """One thing that is done on a page. It names exactly one action."""

    open: str | None = Field(None, pattern=r"^https?://[^/\s]+", max_length=2000)
    """Goes on to another page."""
    wait_for: Selector | None = None
    """Waits until it is there and visible."""
    click: Selector | None = None
    fill: Selector | None = None
    """A field of a form, which gets `value` or `secret`."""
    value: str = Field("", max_length=10_000)
    secret: str = Field("", pattern=r"^([a-z][a-z0-9_]*)?$")
    """Instead of a value: the name of a setting without its HARVESTER_, as `bluesky_app_password`."""
    scroll: Annotated[int, Field(ge=1, le=1000)] | Literal["end"] | None = None
    """So many screens down; or to the end, until the page grows no more."""
    until: Selector | None = None
    """Scrolls until it is there."""
    captured: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Scrolls until the last captured answer with an address like this, `*` for anything, is the last of its list: JSON
    without a `cursor`; or until what was captured last is an error."""
    pause_s: float | None = Field(None, ge=0, le=60)
    most: int = Field(200, ge=1, le=10_000)
    """The most screens that `scroll = "end"` and `until` go down."""
    timeout_s: float = Field(15.0, gt=0, le=300)
    """Seconds that this step may take."""
    optional: bool = False
    """Whether its failure matters to nobody: a banner that is not always there."""

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
        """The name of what is done."""
        return next(action for action in _ACTIONS if getattr(self, action) is not None)

    def __str__(self) -> str:
        return f"{self.action} {getattr(self, self.action)}"


class RenderOptions(Part):
    """The table `[<site>.browser]`. A request's meta["rendering"] replaces what it names of it."""

    render: bool = False
    """Whether a browser renders the site's pages; a request's meta["render"] says otherwise."""
    steps: tuple[BrowserStep, ...] = Field((), max_length=200)
    """Done in this order when the page has loaded."""
    capture: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = ()
    """Addresses, with `*` for anything, whose XHR and fetch answers the callback gets in response.meta["captured"]."""
    judge_captured: bool = False
    """Whether the page has the outcome of the answers that it captured, where one of them is not ok."""
    most_captured: int = Field(500, ge=1, le=10_000)
    """The most answers that a page may give so; scrolling ends there."""
    most_captured_mb: float = Field(32.0, gt=0)
    """The most megabytes of them."""
    block: tuple[Literal["image", "font", "media", "stylesheet", "script"], ...] = ("image", "font", "media")
    """What is not fetched."""
    block_trackers: bool = True
    block_hosts: tuple[Annotated[str, Field(pattern=r"^[a-z0-9.-]+$")], ...] = ()
    """Further hosts, with all below them, that are not asked."""
    device: Literal["desktop", "mobile"] = "desktop"
    locale: str = Field("en-US", pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")
    time_zone: str = Field("", pattern=r"^([A-Za-z_]+(/[A-Za-z0-9_+-]+)*)?$")
    """As `America/New_York`. Empty: this machine's."""
    session: str = Field("", pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$")
    """Name of the cookies and local storage that are kept for the next page and run. Empty: none are."""
    human: bool = False
    """Whether typing and scrolling take the time that a person takes."""
    timeout_s: float = Field(45.0, gt=0, le=600)
    """Seconds that a page may take, with its steps."""

    @model_validator(mode="after")
    def _captures(self) -> "RenderOptions":
        if not self.capture and any(step.captured is not None for step in self.steps):
            raise ValueError("a step `captured` sees what `capture` names; name something there")
        return self
