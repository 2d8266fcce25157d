"""The settings that differ between installations, read from HARVESTER_* variables and from `.env`."""

import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import AfterValidator, AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails, PydanticUseDefault
from pydantic_settings import BaseSettings, SettingsConfigDict

from harvester import logs
from harvester.exceptions import UsageError
from harvester.masking import is_telling, mask, mask_log
from harvester.validation import said_of

logger = logging.getLogger(__name__)

PREFIX = "HARVESTER_"
_is_address = re.compile(r"[\w+]+://(?:[^:/@]*:([^/@]*)@)?.*").fullmatch
"""The group is the password."""
_secret_options = re.compile(r"(?:password|token|secret)\w*[=:]([^&;,]+)", re.IGNORECASE).findall
"""Finds secrets in the options of a URL, such as tlsCertificateKeyFilePassword and AWS_SESSION_TOKEN."""
NEAR = 0.85
"""Minimum similarity, from 0 to 1, of an unknown variable to the setting that is suggested for it."""

_is_of_credentials = re.compile(rf"{PREFIX}(?:SESSION_\w+_(?:USER|PASSWORD)|PUBLISH_\w+_(?:URL|SECRETS))").fullmatch
"""Matches variables of identities/credentials.py and publish/sinks.py."""
_is_of_kubernetes = re.compile(rf"{PREFIX}\w*_(?:SERVICE_HOST|SERVICE_PORT\w*|PORT(?:_\d+_(?:TCP|UDP)\w*)?)").fullmatch
"""Matches variables that Kubernetes sets in each container for each service, such as `harvester-redis`."""
_WEB_ADDRESS = r"^https?://[^/\s]+"
_WEB_ADDRESS_OR_NONE = r"^(?:https?://[^/\s]+.*)?$"
_WHOLE_ADDRESS_OR_NONE = r"^(?:https?://[^/\s]+\S*)?$"
_HOSTS = r"^\s*(?:[^\s,/@]+(?:\s*,\s*[^\s,/@]+)*)?\s*$"
"""Names or IP addresses with or without a port, separated by commas."""
_DATABASE = r"^[A-Za-z0-9_-]{1,38}$"
_CONTACT = r"^(?:[^\x00-\x1f\x7f]{3,})?$"
_NUMBER = r"^[0-9]*$"
_WANTED = {
    **dict.fromkeys(
        (_WEB_ADDRESS, _WEB_ADDRESS_OR_NONE, _WHOLE_ADDRESS_OR_NONE), "give an address, as https://example.org"
    ),
    _HOSTS: "give hosts, with commas between, as intranet.example,127.0.0.1:8080",
    _DATABASE: "give a name of 1 to 38 letters, digits, - and _",
    _CONTACT: "give an e-mail address or a page of yours, as mailto:NAME@YOUR-DOMAIN",
    _NUMBER: "give its number",
}
"""Error message by pattern, for values that do not match it."""
DATABASE = "harvester"
"""The default name of the MongoDB database."""
NO_CONTACT = (
    "HARVESTER_CONTACT is not set: whoever runs the sites that are asked cannot reach you. Set it to an e-mail address"
    " or a page of yours, as mailto:NAME@YOUR-DOMAIN."
)
"""The warning of a run that visits foreign sites without a contact."""
TOLD = "_HARVESTER_TOLD"
"""A variable set for child processes, whose parent has already warned of unknown variables."""


def _checked_webhook(value: SecretStr) -> SecretStr:
    """Checks a webhook's URL. The message does not contain it, since it is a secret."""
    if (address := value.get_secret_value()) and not _is_web_address(address):
        raise ValueError("is no web address; give the whole one, like https://hooks.example.org/services/...")
    return value


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return named and not re.search(r"\s", text)


def _checked_names(value: str) -> str:
    """Checks host names, since a name with a scheme or a port would never match a request."""
    for name in filter(None, map(str.strip, value.split(","))):
        if re.search(r"[\s/@]", name) or (":" in name and not _is_ip_address(name.strip("[]"))):
            raise ValueError(f"{name!r} is no name alone; give it without scheme and port, as harvester.example.org")
    return value


def _checked_proxies(value: str) -> str:
    """Checks proxy addresses, since a name would never match a peer, and `*` would trust everybody."""
    for address in filter(None, map(str.strip, value.split(","))):
        try:
            network = ip_network(address)
        except ValueError as error:
            raise ValueError(
                f"{address!r} is no address: {error}; give addresses or networks, as 127.0.0.1,10.0.0.0/8"
            ) from None
        if not network.prefixlen:
            raise ValueError(f"{address!r} names everybody; give the addresses of your proxies, as 127.0.0.1")
    return value


def _is_ip_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


Webhook = Annotated[SecretStr, AfterValidator(_checked_webhook)]


class Config(BaseSettings):
    """The settings of the whole program. Secrets are SecretStr, so that no log or repr can show them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        allow_inf_nan=False,  # -1 stands for for ever
    )

    # Servers
    mongodb_uri: SecretStr | None = Field(None, validation_alias=AliasChoices("HARVESTER_MONGODB_URI", "MONGODB_URI"))
    """The MongoDB that holds records and ledger. None: a private one under the state folder."""
    redis_url: SecretStr | None = Field(None, validation_alias=AliasChoices("HARVESTER_REDIS_URL", "REDIS_URL"))
    """A Redis or Valkey. None: a private one under the state folder."""
    redis_may_forget: bool = False
    """Whether a Redis may be used that keeps no log (`appendonly no`): when it ends, what is to be fetched is lost."""
    postgres_uri: SecretStr | None = None
    """A PostgreSQL that gets the records, too: `postgresql://user@host:5432/database`."""
    postgres_schema: str = "harvester"
    """Its schema for their tables."""
    database: str = Field(DATABASE, pattern=_DATABASE)
    """MongoDB database of the records and of the ledger."""

    # Workers
    lease_seconds: float = Field(30.0, ge=1)
    """How long a worker may be silent before its requests go to others. No callback may block for longer."""
    max_deliveries: int = Field(5, ge=1)
    """How often a request is handed out again whose worker died, before it is a dead letter."""
    idle_seconds: float = Field(0.0, ge=-1)
    """How long a worker that finds no work waits for more before it ends. 0: not at all. -1: for ever."""
    unreachable_seconds: float = Field(120.0, ge=-1)
    """How long a run goes on whose hosts cannot be reached and have never answered it. -1: for ever."""
    parked_seconds: float = Field(1800.0, ge=-1)
    """How long a site may be left alone before a run ends that has nothing else to do. -1: for ever."""
    deferred_seconds: float = Field(60.0, ge=-1)
    """How long job items may wait for their next attempt before a run ends that has no other work. -1: for ever."""

    # Watching
    log_format: Literal["text", "json"] = "text"
    """How log lines are written: `text` for people, `json` as one object a line."""
    metrics_port: int | None = Field(None, ge=1, le=65_000)
    """Port on which a process that crawls tells Prometheus of itself; of several the next ports. None: it does not."""
    metrics_host: str = Field("127.0.0.1", min_length=1)
    """The address of this machine on which it listens. Nobody is asked for a password there."""

    traces_url: str = Field("", pattern=_WHOLE_ADDRESS_OR_NONE)
    """Where the way of requests is told as OpenTelemetry traces (OTLP over HTTP), as http://127.0.0.1:4318/v1/traces."""
    traces_share: float = Field(0.01, ge=0, le=1)
    """The share of requests whose way is told."""

    # Places
    state_dir: Path = Path(".harvester")
    """Private servers, login sessions, locks."""
    data_dir: Path = Path("data")
    """Staged records, images, rejects, reports."""
    sites_dir: Path | None = None
    """Folder of TOML files with entries of sites, beside those that come with harvester."""
    images_store: str = ""
    """Where pictures, PDFs and files of flows are kept: a folder or s3://bucket/prefix. Empty: in the data folder."""

    retention: str = "bad_lines=90d exports=90d feeds=90d flows=180d logs=30d rejects=180d reports=180d"
    """How long, and up to which size, files are kept: `KIND=AGE,SIZE`, see [Storage](storage.md#room-on-the-disk)."""

    # Manners
    contact: str = Field("", pattern=_CONTACT)
    """Where a site's operator reaches you: an e-mail address or a page of yours. It is sent in the User-Agent."""
    requests_per_second: float = Field(8.0, ge=0)
    """The most that one host is asked, by all workers of one Redis together. 0: no limit (servers of your own)."""
    concurrent_per_host: int = Field(4, ge=1, le=64)
    """The most requests to one host at the same time, likewise."""
    plc_url: str = Field("https://plc.directory", pattern=_WEB_ADDRESS)
    """The directory of did:plc documents."""
    allow_private_hosts: bool = False
    """Whether any request may lead to this machine or a private network."""
    private_hosts: str = Field("", pattern=_HOSTS)
    """Hosts of your own that may be asked although they are there: `intranet.example,127.0.0.1:8080`."""

    # Proxies, for sites whose entry names them
    proxies_file: Path | None = None
    """A list of proxies, one a line: `http://user:password@host:port`, its tier (default datacenter), its country."""
    brightdata_customer: SecretStr | None = None
    """Bright Data's id of the customer."""
    brightdata_zones: SecretStr | None = None
    """The zone of each tier there, with its password: `datacenter=zone:password residential=zone:password`."""
    oxylabs_users: SecretStr | None = None
    """The user of each tier at Oxylabs: `residential=user:password datacenter=user:password@dc.oxylabs.io:8000`."""
    zyte_api_key: SecretStr | None = None
    """Key of Zyte API, for its proxy mode."""

    # Bounds on what is asked for and downloaded
    max_url_bytes: int = Field(8192, ge=256)
    """Bytes of an address. A longer one is not asked for; a page that links to it is kept."""
    max_request_kb: int = Field(512, ge=16)
    """Kilobytes of a request as it waits in the frontier: address, headers, body, meta."""
    max_response_mb: int = Field(32, ge=1)
    """Megabytes of an answer."""
    max_page_elements: int = Field(50_000, ge=1000)
    """Elements of a page that a callback parses."""
    max_repository_mb: int = Field(256, ge=1)
    """Megabytes of an account's repository (history=car)."""
    max_image_mb: int = Field(20, ge=1)
    """Megabytes of a picture."""
    max_image_megapixels: int = Field(50, ge=1)
    """Megapixels of a picture."""
    max_image_memory_mb: int = Field(200, ge=16)
    """Megabytes that reading a picture may take: 1 to 20 bytes a pixel, by its format."""
    max_pdf_mb: int = Field(20, ge=1)
    """Megabytes of a PDF."""

    remove_markup: Literal["meant", "all", "none"] = "meant"
    """What goes from cleaned texts: what was meant as markup; `all` that looks like markup; or `none`."""

    # Browser, for pages that need one
    chromium: str = ""
    """The Chromium to start: a name on PATH or a path. Empty: the first of the usual ones."""
    browser_pages: int = Field(4, ge=1, le=64)
    """The most pages that are rendered at the same time."""
    browser_memory_mb: int = Field(3000, ge=500)
    """Megabytes of a browser with all its processes, above which another takes its place."""

    # Bluesky
    bluesky_service: str = Field("https://public.api.bsky.app", pattern=_WEB_ADDRESS)
    """The AppView that is asked, unless a crawl is told another one (`-a service=`)."""

    # Login to Bluesky (optional), with an app password on the account's own PDS
    bluesky_identifier: str | None = None
    """Handle, DID or e-mail address of the account to log in with."""
    bluesky_app_password: SecretStr | None = None
    """Its app password, not its own password."""
    bluesky_pds: str = "https://bsky.social"
    """Where to log in: the account's own server, or bsky.social for all that Bluesky runs."""

    # Sources of hashtags and trends
    google_trends_url: str = Field("https://trends.google.com", pattern=_WEB_ADDRESS)
    """Where Google Trends is."""
    mastodon_instances: str = Field("mastodon.social", min_length=1)
    """Servers of Mastodon that are asked unless a crawl is told others (`-a instances=`): hosts between commas."""
    tiktok_url: str = Field("https://ads.tiktok.com", pattern=_WEB_ADDRESS)
    """Where TikTok's Creative Center is."""
    youtube_url: str = Field("https://www.googleapis.com/youtube/v3", pattern=_WEB_ADDRESS)
    """Where YouTube's Data API is."""
    youtube_key: SecretStr | None = None
    """A key for it."""
    instagram_url: str = Field("https://graph.facebook.com/v26.0", pattern=_WEB_ADDRESS)
    """Where Instagram's Graph API is, with its version."""
    instagram_user: str | None = Field(None, pattern=_NUMBER)
    """Id of an Instagram account of yours that may read public content; needs the token too."""
    instagram_token: SecretStr | None = None
    """Its access token."""

    # Publishing
    publish_file: Path | None = None
    """TOML file of those who are told of new and changed records (publishing.md). None: nobody is."""

    webhook_keys: SecretStr | None = None
    """Of which the secrets of webhooks are made, 32 characters or more, the newest first. None: a file keeps one."""

    # Scrapyd, for harvester deploy
    scrapyd_user: str | None = None
    """User of the Scrapyd to which `harvester deploy` deploys."""
    scrapyd_password: SecretStr | None = None
    """Password of that user."""

    # What a run must reach
    min_records: int = Field(1, ge=0)
    """The fewest records that the items of a run's job must have brought, or that a run without a job must store."""
    max_error_ratio: float = Field(0.1, ge=0, le=1)
    """The share of requests, and of the job items of a kind, that may fail."""
    max_reject_ratio: float = Field(0.02, ge=0, le=1)
    """The share of records that may be rejected."""
    max_unclassified: int = Field(0, ge=0)
    """How many failures may match no rule."""
    max_drop_ratio: float = Field(0.4, ge=0, le=1)
    """How much less than the median of earlier runs a run may yield."""

    # The controller (harvester up)
    control_hosts: Annotated[str, AfterValidator(_checked_names)] = ""
    """Names under which it may be asked beside those of this machine's loopback: `harvester.example.org`."""
    control_proxies: Annotated[str, AfterValidator(_checked_proxies)] = ""
    """Addresses or networks of proxies in front of it, whose `X-Forwarded-For` and `-Proto` count: `127.0.0.1`."""
    control_upload_mb: int = Field(512, ge=1)
    """Megabytes of a file of items that is uploaded, decompressed."""

    # A controller on another machine, for harvester jobs
    url: str = Field("", pattern=_WEB_ADDRESS_OR_NONE)
    """Where it is: `https://harvester.example.org`. `harvester jobs` asks it, in place of this machine's servers."""
    token: SecretStr | None = None
    """The token by which it is asked."""
    token_file: Path | None = None
    """A file that holds it, in place of that. None: on the controller's own machine the one that it made for itself."""

    # Alerts
    alert_webhook_url: Webhook | None = None
    """Gets the alert as JSON by POST."""
    alert_slack_webhook_url: Webhook | None = None
    """Incoming webhook of a Slack channel."""
    alert_discord_webhook_url: Webhook | None = None
    """Webhook of a Discord channel."""
    alert_telegram_token: SecretStr | None = None
    """Token of a Telegram bot; needs the chat too."""
    alert_telegram_chat_id: str | None = None
    """The chat in which the bot writes."""
    alert_telegram_api: str = Field("https://api.telegram.org", pattern=_WEB_ADDRESS)
    """Telegram's server, or one of your own."""
    alert_email_to: str | None = None
    """Addresses, comma-separated; needs the SMTP host too."""
    alert_email_from: str | None = None
    """Sender. None: harvester at this machine's name."""
    smtp_host: str | None = None
    """The server that sends the e-mail."""
    smtp_port: int = Field(587, ge=1, le=65_535)
    """Its port."""
    smtp_user: str | None = None
    """User there, when it wants one."""
    smtp_password: SecretStr | None = None
    """Password of that user."""
    smtp_starttls: bool = True
    """Whether the connection is encrypted with STARTTLS."""

    @field_validator("state_dir", "data_dir", "sites_dir", "proxies_file", "publish_file", "token_file", mode="before")
    @classmethod
    def _no_path_is_empty(cls, value: object) -> object:
        """Treats an empty path as not set, since it would be the current folder."""
        if value == "":
            raise PydanticUseDefault
        return value

    @property
    def user_agent(self) -> str:
        """Product, version and contact; the product is also the name to address in robots.txt."""
        return f"harvester/1.0 (+{self.contact})" if self.contact else "harvester/1.0"

    @property
    def images_location(self) -> str:
        """Folder or s3:// address of pictures and PDFs."""
        return self.images_store or str(self.data_dir / "images")


@lru_cache(maxsize=1)
def load_config() -> Config:
    """Returns this process's settings. Raises UsageError that names each bad variable; warns of unknown variables."""
    config = read_config()
    _hide_secrets(config)
    if config.log_format == "json":
        logs.write_json()
    if TOLD not in os.environ:
        for said in misspelt(config):
            logger.warning("%s", said)
    return config


def _hide_secrets(config: Config) -> None:
    """Masks the secrets in every log line, reason and report of this process."""
    mask_log()
    shown = [value for field in Config.model_fields if isinstance(value := getattr(config, field), str)]
    for field in Config.model_fields:
        if not isinstance(held := getattr(config, field), SecretStr) or not (secret := held.get_secret_value()):
            continue
        found = _is_address(secret)
        mask.add(*([unquote(found[1])] if found and found[1] else []), *([] if found else [secret]))
        mask.add(*map(unquote, _secret_options(secret.partition("?")[2] if found else "")))
        if field.startswith("alert_"):
            words = filter(is_telling, re.split(r"[/?&=]", secret))
            mask.add(*(word for word in words if not any(word in each for each in shown)))


def read_config() -> Config:
    """Reads the current settings. Raises UsageError that names each bad variable."""
    try:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The file .env in {Path.cwd()} cannot be read: {error}. Mend it, or remove it.") from None
    except ValidationError as error:
        lines = [f"  {variable_of(str(each['loc'][0]))}: {_said_of_value(each)}" for each in error.errors()]
        raise UsageError("Settings cannot be used (environment or .env):\n" + "\n".join(lines)) from None


def _said_of_value(error: ErrorDetails) -> str:
    return _WANTED.get(error.get("ctx", {}).get("pattern", "")) or said_of(error)


def misspelt(config: Config) -> list[str]:
    """Returns a warning for each HARVESTER_* variable (environment, .env) that no setting and no site's entry uses."""
    in_environment, in_file = _given()
    given = in_environment | in_file
    known = names()
    odd = {name for name in given if name.startswith(PREFIX)} - known
    odd = {name for name in odd if not _is_of_credentials(name) and not _is_of_kubernetes(name)}
    if odd:
        odd -= _secrets_of_sites(config)
    return [_said_of(name, known) for name in sorted(odd)]


def _given() -> tuple[set[str], set[str]]:
    """Returns the variables of the environment, and of `.env`, in capital letters."""
    env_file = Config.model_config.get("env_file")
    in_file = _named_in(Path(env_file)) if isinstance(env_file, str) else ()
    return {name.upper() for name in os.environ}, {name.upper() for name in in_file}


def variable_of(setting: str) -> str:
    """Returns the variable that a setting was given by; without one, the first that it may have."""
    field = next((each for each in Config.model_fields if setting.upper() in (each.upper(), *_variables(each))), "")
    return given_by(field)[0] if field else setting


def given_by(field: str) -> tuple[str, Literal["environment", ".env", ""]]:
    """Returns the variable that a field was given by, or the first that it may have; and its source."""
    variables = _variables(field)
    environment, in_file = _given()
    for name in variables:
        if name in environment:
            return name, "environment"
    return next(((name, ".env") for name in variables if name in in_file), (variables[0], ""))


def variable_value(name: str) -> str:
    """Returns the value of a variable beside the settings, from the environment or `.env`; empty if unset."""
    env_file = Config.model_config.get("env_file")
    in_file = dotenv_values(env_file) if isinstance(env_file, str) else {}
    return os.environ.get(name) or in_file.get(name) or ""


def _named_in(env_file: Path) -> Iterator[str]:
    """Yields the variables of the file. pydantic has already warned of invalid lines."""
    if env_file.is_file():
        with env_file.open(encoding="utf-8") as lines:
            yield from (line.key for line in parse_stream(lines) if line.key)


def names() -> set[str]:
    """Returns all variables that are settings."""
    return {name for field in Config.model_fields for name in _variables(field)}


def _variables(field: str) -> list[str]:
    alias = Config.model_fields[field].validation_alias
    return [PREFIX + field.upper(), *(map(str, alias.choices) if isinstance(alias, AliasChoices) else ())]


def _secrets_of_sites(config: Config) -> set[str]:
    """Returns the variables that sites' steps on pages are filled in from."""
    found: set[str] = set()
    for file in config.sites_dir.rglob("*.toml") if config.sites_dir else ():
        with suppress(OSError, ValueError):  # reported where the sites are used
            tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
            found.update(f"{PREFIX}{name.upper()}" for name in _secrets(tables))
    return found


def _secrets(value: Any) -> Iterator[str]:
    """Yields the values of all keys `secret`, at any depth."""
    if isinstance(value, Mapping):
        if isinstance(name := value.get("secret"), str) and name:
            yield name
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _secrets(each)


def _said_of(name: str, known: set[str]) -> str:
    near = get_close_matches(name, [each for each in known if each.startswith(PREFIX)], 1, NEAR)
    return f"{name} is no setting" + (f"; did you mean {near[0]}?" if near else ", and no site's entry names it")
