"""The sinks in HARVESTER_PUBLISH_FILE: the receivers, the records that they want, and the protocol."""

import re
import tomllib
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from harvester.config import Config, variable_value
from harvester.download.addresses import is_of_others, refuse_private
from harvester.exceptions import UnknownSink, UsageError
from harvester.items import RECORDS
from harvester.items.other import item_kind
from harvester.masking import is_telling, mask
from harvester.project import spider_loader
from harvester.sites.problems import problems
from harvester.stores.redis import client_of
from harvester.stores.tables import in_json
from harvester.validation import did_you_mean

SETTING = "HARVESTER_PUBLISH_FILE"
SECRET_PREFIX = "whsec_"
Change = Literal["created", "updated"]
_is_name = re.compile("[a-z][a-z0-9_]{0,39}").fullmatch


class Sink(BaseModel):
    """A table of the file: a receiver, and the events that it wants."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    SCHEMES: ClassVar[tuple[str, ...]]
    """Schemes for its address."""
    EXAMPLE: ClassVar[str]
    """An example of an address."""

    name: str
    url: str = ""
    """The address of the sink. The variable HARVESTER_PUBLISH_<NAME>_URL overrides it, and is required for an address
    with a password."""
    spiders: tuple[str, ...] = ()
    """Spiders whose records it gets; empty for all."""
    records: tuple[str, ...] = ()
    """Kinds of records that it gets, such as `post`; empty for all."""
    changes: tuple[Change, ...] = ("created", "updated")
    where: str = ""
    """A JMESPath expression over the record's JSON. It gets only records that make the expression true."""
    set_aside_hours: float = Field(75, gt=0, le=24 * 365)
    """Hours that it may fail. Then nothing is sent to it until a person resumes it."""

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not _is_name(name):
            raise ValueError(f"{name!r} cannot be a sink's name: take lower case letters, digits and _")
        return name

    @field_validator("where")
    @classmethod
    def _compiles(cls, where: str) -> str:
        try:
            if where:
                jmespath.compile(where)
        except JMESPathError as error:
            raise ValueError(f"{where!r} is no JMESPath expression: {' '.join(str(error).split())}") from None
        return where

    @field_validator("changes")
    @classmethod
    def _some(cls, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        if not changes:
            raise ValueError("is empty: name created, updated or both")
        return changes

    def wants(self, kind: str, spider: str) -> bool:
        """Returns True if it wants records of this kind by this spider."""
        return (not self.records or kind in self.records) and (not self.spiders or spider in self.spiders)

    def takes(self, record: Mapping[str, Any]) -> bool:
        """Returns True if the record passes its filter. An error in the filter counts as False."""
        if not self.where:
            return True
        try:
            return _is_true(self._filter.search(msgspec.to_builtins(record, enc_hook=in_json)))
        except (ValueError, TypeError, ArithmeticError):  # JMESPathError is a ValueError
            return False

    @cached_property
    def _filter(self) -> Any:
        return jmespath.compile(self.where)

    def address(self) -> str:
        """Returns its address. Raises UsageError when that is missing, invalid, or has a password in the file."""
        variable = f"HARVESTER_PUBLISH_{self.name.upper()}_URL"
        url = variable_value(variable) or self.url
        where = f"The sink {self.name} of {SETTING}"
        if not url:
            raise UsageError(f"{where} has no address: give it a `url`, or set {variable}, like {self.EXAMPLE}.")
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            raise UsageError(f"{where}: its address is none. Give one like {self.EXAMPLE}.") from None
        if parts.scheme not in self.SCHEMES or not (parts.hostname or parts.scheme == "unix"):
            known = ", ".join(self.SCHEMES)
            raise UsageError(f"{where}: its address begins with none of {known}. Give one like {self.EXAMPLE}.")
        if parts.password:
            mask.add(parts.password)
            if not variable_value(variable):
                raise UsageError(f"{where}: a password stands in its `url`. Set {variable} instead.")
        return url

    def check(self, config: Config, names: Sequence[str]) -> None:
        """Raises UsageError when sending cannot work, as far as that is known without a connection.

        `names` are the names of all sinks, and other words that are not secret within an address.
        """
        self.address()


class RedisSink(Sink):
    """`kind = "redis"`: entries of a Redis stream, with the fields `id`, `type` and `event`."""

    SCHEMES = ("redis", "rediss", "unix")
    EXAMPLE = "redis://127.0.0.1:6379/0"

    kind: Literal["redis"]
    stream: str = Field("harvester:events", min_length=1, max_length=512)
    """Key of the stream."""
    most_entries: int = Field(1_000_000, ge=1)
    """Maximum number of entries in the stream."""
    when_full: Literal["wait", "trim"] = "wait"
    """`wait` adds nothing until its readers have trimmed it. `trim` drops the oldest, read or not."""

    @property
    def is_own(self) -> bool:
        """True for a stream in harvester's own Redis, because no other one is named."""
        return not (self.url or variable_value(f"HARVESTER_PUBLISH_{self.name.upper()}_URL"))

    def check(self, config: Config, names: Sequence[str]) -> None:
        if not self.is_own:
            client_of(self.address(), f"The sink {self.name} of {SETTING}: its address", self.EXAMPLE)


WEBHOOK_PORTS = (None, 443, 8443)
"""Ports of public receivers."""


def check_webhook(url: str, where: str, config: Config) -> None:
    """Raises UsageError, which begins with `where`, when events must not be sent there."""
    if refusal := refuse_private(url, config):
        raise UsageError(f"{where}: its address is refused: {refusal}.")
    parts = urlsplit(url)
    if parts.username is not None:
        raise UsageError(f"{where}: its address holds a user's name, which is sent to nobody. Take it out.")
    if is_of_others(url, config) and (parts.scheme != "https" or parts.port not in WEBHOOK_PORTS):
        known = "https, at port 443 or 8443"
        raise UsageError(f"{where}: events go by {known}; HARVESTER_PRIVATE_HOSTS permits a host of your own.")


def secrets_in(url: str, names: Iterable[str] = ()) -> list[str]:
    """Returns possible secrets in the path and query of an address: no word that is part of a name in `names`.

    People need to read such words: a sink `orders_v2` at https://receiver.example/orders_v2 must stay readable.
    """
    parts = urlsplit(url)
    words = filter(is_telling, re.split(r"[/?&=]", f"{parts.path}?{parts.query}"))
    return [word for word in words if not any(word in name for name in names)]


class WebhookSink(Sink):
    """`kind = "webhook"`: an address that gets each event by POST, signed by the rules of Standard Webhooks."""

    SCHEMES = ("https", "http")
    EXAMPLE = "https://receiver.example/hook"
    kind: Literal["webhook"]
    secrets_file: Path | None = None
    """File with its secrets, the newest first, read before each try. Default: HARVESTER_PUBLISH_<NAME>_SECRETS."""
    timeout_s: float = Field(15, gt=0, le=120)
    """Seconds that it has to answer."""
    at_once: int = Field(8, ge=1, le=64)
    """Maximum number of concurrent events."""

    def check(self, config: Config, names: Sequence[str]) -> None:
        url = self.address()
        mask.add(*secrets_in(url, names))
        check_webhook(url, f"The sink {self.name} of {SETTING}", config)
        self.secrets()

    def secrets(self) -> list[bytes]:
        """Returns the secrets; every event is signed by each. Raises UsageError without a secret, or for an invalid
        one."""
        variable = f"HARVESTER_PUBLISH_{self.name.upper()}_SECRETS"
        given, text = variable, variable_value(variable)
        if self.secrets_file:
            given = str(self.secrets_file)
            try:
                text = self.secrets_file.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                said = getattr(error, "strerror", None) or error
                raise UsageError(f"The sink {self.name}: its secrets_file {given} cannot be read: {said}.") from None
        if not text.split():
            raise UsageError(
                f"The sink {self.name} has no secret: set {variable}, or name a secrets_file."
                " `harvester publish secret` makes one; with two, the new one first, both sign."
            )
        return [self._secret(word, given) for word in text.split()]

    def _secret(self, word: str, given: str) -> bytes:
        mask.add(word, word.removeprefix(SECRET_PREFIX))
        try:
            secret = b64decode(word.removeprefix(SECRET_PREFIX), validate=True)
        except ValueError:
            secret = b""
        if not word.startswith(SECRET_PREFIX) or not 24 <= len(secret) <= 64:
            raise UsageError(
                f"The sink {self.name}: {given} holds what is no secret: {SECRET_PREFIX} and 24 to 64 bytes in base64,"
                " as `harvester publish secret` makes them."
            )
        return secret


class AmqpSink(Sink):
    """`kind = "amqp"`: a durable topic exchange of RabbitMQ, or of another AMQP 0-9-1 broker."""

    SCHEMES = ("amqp", "amqps")
    EXAMPLE = "amqps://broker.example/vhost"

    kind: Literal["amqp"]
    exchange: str = Field("harvester", min_length=1, max_length=255)
    """The exchange, which is declared. Its readers own the queues and bind them."""
    timeout_s: float = Field(30, gt=0, le=600)
    """Seconds that the broker has to confirm."""

    def check(self, config: Config, names: Sequence[str]) -> None:
        super().check(config, names)
        if find_spec("aio_pika") is None:
            raise UsageError("A sink of the kind amqp needs a package: pip install 'harvester[amqp]'")


AnySink = RedisSink | WebhookSink | AmqpSink
_KINDS: dict[str, type[AnySink]] = {"amqp": AmqpSink, "redis": RedisSink, "webhook": WebhookSink}


class Sinks:
    """All sinks of a file."""

    def __init__(self, sinks: Iterable[AnySink], source: str) -> None:
        self.by_name = {sink.name: sink for sink in sinks}
        self.source = source
        """CloudEvents' `source` of all events, which identifies the harvest."""
        self.wanting = cache(self._wanting)

    def _wanting(self, kind: str, spider: str) -> tuple[AnySink, ...]:
        return tuple(sink for sink in self.by_name.values() if sink.wants(kind, spider))

    def named(self, name: str) -> AnySink:
        """Returns the sink with this name. Raises UnknownSink."""
        if name not in self.by_name:
            meant = did_you_mean(name, self.by_name) or f"; there are: {', '.join(self.by_name)}."
            raise UnknownSink(f"There is no sink {name!r} in {SETTING}{meant}")
        return self.by_name[name]

    def check_names(self, spiders: Sequence[str]) -> None:
        """Raises UsageError when a sink wants unknown records, or spiders that are not in the project's `spiders`."""
        kinds = {*RECORDS, *map(item_kind, spiders)}
        for word, known in (("records", sorted(kinds)), ("spiders", sorted(spiders))):
            for sink in self.by_name.values():
                for name in getattr(sink, word):
                    if name not in known:
                        meant = did_you_mean(name, known) or f"; there are: {', '.join(known)}."
                        raise UsageError(f"{SETTING}: {sink.name}.{word}: there is no {name!r}{meant}")


def load_sinks(config: Config) -> Sinks | None:
    """Returns the sinks of the configured file, None without a file. Raises UsageError that names file, sink and
    key."""
    path = config.publish_file
    if path is None:
        return None
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        said = getattr(error, "strerror", None) or error
        raise UsageError(f"{SETTING}: {path} cannot be read: {said}.") from None
    sinks = [_sink_of(path, name, table) for name, table in tables.items()]
    if not sinks:
        raise UsageError(f"{SETTING}: {path} names no sink. Add a table like [posts], with its `kind`, or unset it.")
    names = [config.database, *(name for sink in sinks for name in (sink.name, *sink.spiders, *sink.records))]
    for sink in sinks:
        sink.check(config, names)
    return Sinks(sinks, f"/harvester/{config.database}")


def project_sinks(config: Config) -> Sinks | None:
    """Returns the sinks outside of a crawl: imports the project's spiders, and with them its records, to check the
    names."""
    sinks = load_sinks(config)
    if sinks:
        sinks.check_names(spider_loader().list())
    return sinks


def configured_sinks(config: Config) -> Sinks:
    """Returns the project's sinks. Raises UsageError also without sinks."""
    sinks = project_sinks(config)
    if sinks is None:
        raise UsageError(f"{SETTING} is not set: nobody is told of records. docs/publishing.md says what stands in it.")
    return sinks


def _sink_of(path: Path, name: str, table: Any) -> AnySink:
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {name} stands outside of a sink's table. Put it below a line like [posts].")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        given = f"there is no kind {kind!r}" if kind else "it has no `kind`"
        raise UsageError(f"{path}: {name}: {given}; there are {', '.join(_KINDS)}.")
    if "name" in table:
        raise UsageError(f"{path}: the sink's name is the heading, [{name}]; take the key `name` out.")
    try:
        return _KINDS[kind](name=name, **table)
    except ValidationError as error:
        lines = [f"  {place}: {said}" for place, said in problems(error, _KINDS[kind], name).items()]
        raise UsageError(f"Sinks in {path} cannot be used:\n" + "\n".join(lines)) from None


def _is_true(value: Any) -> bool:
    """Returns the truth in JMESPath: 0 is true, empty values are not."""
    return value not in (None, False, "", [], {}) or (value == 0 and value is not False)
