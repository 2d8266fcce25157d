"""The settings of a site's identities, and of their login methods."""

import re
from typing import Annotated, Literal, Self

from cssselect import HTMLTranslator, SelectorError
from pydantic import AfterValidator, Field, field_validator, model_validator

from harvester.patterns import Expression
from harvester.sites.part import Part

ADDRESS = r"^https?://[^/\s]+"
_is_credentials_name = re.compile(r"[A-Z][A-Z0-9_]*").fullmatch


def _selects(selector: str) -> str:
    try:
        HTMLTranslator().css_to_xpath(selector)
    except SelectorError as error:
        raise ValueError(f"is no CSS selector: {error}") from None
    return selector


class Sign(Part):
    """A sign in a response. All given conditions must hold; with none it never matches."""

    cookie: str = ""
    """Name of a cookie that the identity then has."""
    text: Expression = ""
    """Pattern in the body."""
    url: Expression = ""
    """Pattern in the address after redirects."""
    status: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.cookie or self.text or self.url or self.status)


class FormLoginEntry(Part):
    """A form on a page, sent with all its hidden fields. For kind = "form" and "agree"."""

    page: str = Field(pattern=ADDRESS)
    """Address of the page with the form."""
    css: Annotated[str, AfterValidator(_selects)] = "form"
    """CSS selector of the form."""
    fields: dict[str, str]
    """Values of fields, and the button to press. `{user}` and `{password}` stand for the credentials."""
    statement: Sign = Sign()
    """Sign of a page whose form must not be sent, because it has terms that no person has accepted."""
    success: Sign
    refused: Sign = Sign()
    """Sign of a wrong password. Default: a status 400, 401, 403 or 422, or a form with a password again."""


class Refresh(Part):
    """The call that replaces a token before it ends, without the password."""

    url: str = Field(pattern=ADDRESS)
    body: dict[str, str] = Field(default_factory=dict)
    """`{refresh_token}` stands for the refresh token. By default the call has no body."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of the call; `{refresh_token}` as in `body`."""
    refresh_token: str
    """Path of the refresh token in the responses of both calls, such as `data.refresh_token`."""


class TokenLoginEntry(Part):
    """A JSON call that returns a token. For kind = "token"."""

    url: str = Field(pattern=ADDRESS)
    body: dict[str, str]
    """`{user}` and `{password}` stand for the credentials."""
    token: str
    """Path of the token in the response, such as `data.access_token`."""
    headers: dict[str, str] = Field(default_factory=lambda: {"Authorization": "Bearer {token}"})
    """Headers of later requests."""
    expires_in: str = ""
    """Path of the seconds that the token lives. Default: the time in a JWT, else until it is refused."""
    origin: str = ""
    """Path of the address of the account's own server, for a service with many. If given, the identity's requests,
    `refresh` and the check go to that server only. In a list, `#pds` is the entry with an `id` that ends so."""
    refresh: Refresh | None = None


class KeyLoginEntry(Part):
    """Headers that hold a key or token from a person. For kind = "key"."""

    headers: dict[str, str] = Field(default_factory=lambda: {"Authorization": "Bearer {password}"})
    """Headers of requests. `{user}` and `{password}` stand for the credentials."""


class BrowserLoginEntry(Part):
    """Steps in a browser. For kind = "browser"."""

    steps: tuple[dict[str, str | int | float], ...] = Field(min_length=1)
    """Steps as in `[<site>.browser]`. In a `value`, `{user}` and `{password}` stand for the credentials."""
    success: Sign

    @field_validator("steps")
    @classmethod
    def _secrets_are_typed_only(
        cls, steps: tuple[dict[str, str | int | float], ...]
    ) -> tuple[dict[str, str | int | float], ...]:
        for number, step in enumerate(steps, 1):
            for key, value in step.items():
                if key != "value" and isinstance(value, str) and ("{user}" in value or "{password}" in value):
                    raise ValueError(f"step {number}: credentials stand in a `value` only, not in `{key}`")
        return steps


class SessionCheck(Part):
    """A request that checks whether a session is still valid: before a saved one is used, then every `every_s`
    seconds."""

    url: str = Field(pattern=ADDRESS)
    every_s: float = Field(300.0, gt=0)
    success: Sign


class Identities(Part):
    """The table `[<site>.identities]`. Without `kind` requests have no identity: no cookies, no login."""

    kind: Literal["anonymous", "agree", "form", "token", "key", "browser"] | None = None
    """`anonymous`: a cookie jar; `agree`: one that has sent a disclaimer's form; `key`: one that sends a key; the
    others sign in."""
    count: int = Field(1, ge=1, le=1000)
    """Number of identities, for the kinds without credentials."""
    credentials: tuple[str, ...] = ()
    """One name for each identity that signs in: COUNTY means HARVESTER_SESSION_COUNTY_USER and ..._PASSWORD."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers that all identities send."""
    at_once: int = Field(4, ge=1)
    """Concurrent requests by an identity."""
    requests: int = Field(0, ge=0)
    """Requests by an identity in each window; 0 for no limit."""
    window_s: float = Field(60.0, gt=0)
    serial: bool = False
    """True if a cookie jar serves a single request by a single chain at a time, also across processes (WebForms)."""
    chain_idle_s: float = Field(30.0, gt=0)
    """Seconds without a request that end a chain. Its identity at a serial site is then free for another."""
    logins_per_hour: int = Field(12, ge=1)
    """Maximum number of logins of an identity in an hour."""
    form: FormLoginEntry | None = None
    token: TokenLoginEntry | None = None
    key: KeyLoginEntry | None = None
    browser: BrowserLoginEntry | None = None
    check: SessionCheck | None = None
    expired_url: Expression = ""
    """Pattern in the address that the site redirects to when a session has ended. For a page that shows it, use the
    outcome session_expired: see `[<site>.outcomes]`."""

    @field_validator("credentials", mode="before")
    @classmethod
    def _one_name_will_do(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("credentials")
    @classmethod
    def _are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _is_credentials_name(name):
                raise ValueError(f"{name!r} is no name of credentials: capital letters, digits and _")
        if len(set(names)) < len(names):
            raise ValueError("a name stands twice")
        return names

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        method = {"agree": "form"}.get(self.kind or "", self.kind)
        given = [name for name in ("form", "token", "key", "browser", "credentials") if getattr(self, name)]
        if self.kind is None and given:
            raise ValueError(f'say its `kind`, such as "form" or "token": without one `{given[0]}` is of no use')
        for name in ("form", "token", "key", "browser"):
            if (getattr(self, name) is not None) != (name == method):
                raise ValueError(f'kind = "{self.kind}" {"needs" if name == method else "has no"} table `{name}`')
        for part in (self.form, self.browser, self.check):
            if part is not None and not part.success:
                raise ValueError("a `success` must name a cookie, text, url or status")
        if self.signs_in != bool(self.credentials):
            raise ValueError(f'kind = "{self.kind}" {"needs" if self.signs_in else "has no"} credentials')
        return self

    @property
    def signs_in(self) -> bool:
        """True if the identities have credentials."""
        return self.kind in ("form", "token", "key", "browser")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the identities in the site's pool."""
        return self.credentials or tuple(f"{number}" for number in range(1, self.count + 1))
