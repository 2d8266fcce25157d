"""A recorded flow: the steps that a person took on a site in Chrome's Recorder, and the data that each row collects.

The recording is untrusted. The settings file beside it is written by the person who runs it.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import SplitResult, quote, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from harvester.exceptions import UsageError
from harvester.sites.part import Part
from harvester.sites.problems import problems
from harvester.sites.registry import load_sites
from harvester.sites.site import Host, patterns_of
from harvester.validation import did_you_mean, said_of

MOST_STEPS = 500
MOST_BYTES = 256 * 1024
"""Maximum bytes of a recording, and of a settings file, because both are stored with the job."""
USUAL_TIMEOUT_MS = 5000
"""Milliseconds for a step, if neither the step nor its recording sets a timeout. The default in Chrome's Recorder."""
NAVIGATE_TIMEOUT_MS = 30_000
"""Milliseconds for a step `navigate` without a timeout. The default in Chrome's Recorder."""
MAIN = "main"
"""Target of steps on the first page of a flow."""
EXTRACT = "extract"
"""The custom step that reads fields: its parameters hold `fields`."""
_column = re.compile(r"(?<!\$)\{([A-Za-z_][\w .-]*)\}")
_secret = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_password = re.compile(r"passw|pwd|secret", re.IGNORECASE).search


# The recording, as Chrome's Recorder writes it ---------------------------------------------------------------


def _chains(value: object) -> object:
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError("name at least one selector, in a list")
    chains = [(each,) if isinstance(each, str) else each for each in value]
    for chain in chains:
        if (
            not isinstance(chain, (list, tuple))
            or not chain
            or not all(isinstance(part, str) and part for part in chain)
        ):
            raise ValueError(
                "each selector is a text, or a list of texts of which each is looked for in the one before"
            )
    return tuple(map(tuple, chains))


Chain = tuple[str, ...]
"""Each selector is searched within the result of the one before, through shadow roots."""
Selectors = Annotated[tuple[Chain, ...], BeforeValidator(_chains)]
"""Alternatives: the first one on the page is used."""
OneOrMore = Annotated[
    tuple[Chain, ...], BeforeValidator(lambda value: _chains([value] if isinstance(value, str) else value))
]
Milliseconds = Annotated[float, Field(ge=1, le=30_000)]
Frame = tuple[Annotated[int, Field(ge=0)], ...]
"""The path from a page to a frame, by the index of the frame at each level, from 0."""


class _Recorded(BaseModel):
    """A part of a recording. Unknown keys are ignored, because the Recorder stores more than is replayed."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel, allow_inf_nan=False)


class AssertedEvent(_Recorded):
    """The event that a step must cause: another page. Its address and title are not compared."""

    type: Literal["navigation"]


class _Step(_Recorded):
    timeout: Milliseconds | None = None
    asserted_events: tuple[AssertedEvent, ...] = ()
    target: str = MAIN
    """Address of the page, or frame of the first page, that the step belongs to."""


class _InFrame(_Step):
    frame: Frame = ()


class _OnElement(_InFrame):
    selectors: Selectors


class SetViewport(_Step):
    type: Literal["setViewport"]
    width: float = Field(ge=1, le=10_000)
    height: float = Field(ge=1, le=10_000)
    device_scale_factor: float = Field(gt=0, le=8)
    is_mobile: bool
    has_touch: bool
    is_landscape: bool


class EmulateNetworkConditions(_Step):
    """Limits in bytes a second and milliseconds. Without bandwidth the network is off."""

    type: Literal["emulateNetworkConditions"]
    download: float = Field(ge=0)
    upload: float = Field(ge=0)
    latency: float = Field(ge=0, le=30_000)


class Navigate(_Step):
    type: Literal["navigate"]
    url: str


class Click(_OnElement):
    """A click. The offsets are from the upper left corner of the element."""

    type: Literal["click", "doubleClick"]
    offset_x: float
    offset_y: float
    button: Literal["primary", "auxiliary", "secondary", "back", "forward"] = "primary"
    device_type: Literal["mouse", "pen", "touch"] = "mouse"
    """Every device is replayed by a mouse, as in the Recorder."""
    duration: float = Field(50, ge=0, le=30_000)


class Hover(_OnElement):
    type: Literal["hover"]


class Change(_OnElement):
    type: Literal["change"]
    value: str

    @property
    def secrets(self) -> list[str]:
        """The names of the secrets to type, written as `${SESSION_COUNTY_PASSWORD}`."""
        return _secret.findall(self.value)

    def filled(self, secret_of: Any) -> str:
        """Returns the value with its secrets."""
        return _secret.sub(lambda found: str(secret_of(found[1].lower())), self.value)


class Key(_Step):
    type: Literal["keyDown", "keyUp"]
    key: str = Field(min_length=1, max_length=50)


class Scroll(_InFrame):
    type: Literal["scroll"]
    x: float = 0
    y: float = 0
    selectors: Selectors | None = None
    """The element to scroll, instead of the page."""


class WaitForElement(_OnElement):
    """Waits until the number of elements matches, all with the given attributes and properties."""

    type: Literal["waitForElement"]
    operator: Literal[">=", "==", "<="] = ">="
    count: int = Field(1, ge=0)
    visible: bool = True
    """False: waits until the condition does not hold."""
    properties: dict[str, Any] = {}
    attributes: dict[str, str] = {}


class WaitForExpression(_InFrame):
    type: Literal["waitForExpression"]
    expression: str


class Close(_Step):
    type: Literal["close"]


class CustomStep(_InFrame):
    type: Literal["customStep"]
    name: str
    parameters: Any = None

    @property
    def fields(self) -> "Fields":
        """The fields that the step reads. Raises ValidationError."""
        return _Extract.model_validate(self.parameters).fields if self.name == EXTRACT else {}


_KINDS = (
    SetViewport | EmulateNetworkConditions | Navigate | Click | Hover | Change | Key | Scroll | WaitForElement
    | WaitForExpression | Close | CustomStep
)  # fmt: skip
Step = Annotated[_KINDS, Field(discriminator="type")]
TYPES = tuple(name for kind in get_args(_KINDS) for name in get_args(kind.model_fields["type"].annotation))
"""Names of the types of steps."""


class Recording(_Recorded):
    """A recording as Chrome's Recorder exports it: the schema of @puppeteer/replay."""

    title: str = Field(min_length=1)
    timeout: Milliseconds | None = None
    steps: tuple[Step, ...] = Field(max_length=MOST_STEPS)

    def seconds(self, step: _Step) -> float:
        """Returns the seconds that the step may take."""
        usual = NAVIGATE_TIMEOUT_MS if isinstance(step, Navigate) else self.timeout or USUAL_TIMEOUT_MS
        return (step.timeout or usual) / 1000


# The settings file beside it ---------------------------------------------------------------------------------


class WantedField(Part):
    """A field to read from a page: a selector, or a table with one."""

    selector: OneOrMore
    attribute: str = ""
    """Attribute to read in place of the text."""
    all: bool = False
    """True to read all matches as a list; else the first one."""
    optional: bool = False
    """True if the field may be missing. A missing required field gives the outcome layout_changed."""
    frame: Frame = ()


Fields = dict[
    Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$")],
    Annotated[
        WantedField, BeforeValidator(lambda value: {"selector": value} if isinstance(value, (str, list)) else value)
    ],
]


class _Extract(BaseModel):
    fields: Fields = Field(min_length=1)


class Collected(Part):
    """The settings file of a recording, `flow.toml` beside `flow.json`: the data to collect, and the permissions."""

    fields: Fields = Field(default_factory=dict)
    html: bool = True
    """True to save the last page as HTML."""
    screenshot: bool = False
    pdf: bool = False
    """True to save the last page as a PDF."""
    capture: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = ()
    """Addresses, with `*` for anything, whose XHR and fetch responses are saved."""
    downloads: int = Field(0, ge=0, le=100)
    """Number of files that the steps download. With fewer, or an incomplete one, the row has failed."""
    no_results: OneOrMore | tuple[()] = ()
    """Selectors for a page that has nothing for a row. The row is then done, with the outcome no_results."""
    hosts: tuple[Host, ...] = ()
    """Further hosts that the steps may open, beside the hosts of the first page's site."""
    trusted: bool = False
    """True if JavaScript in the recording may run, and custom steps may be skipped."""
    timeout_s: float = Field(120.0, gt=0, le=570)
    """Seconds that all steps together may take."""

    @property
    def words(self) -> list[str]:
        """The names of the data that is saved for a row."""
        kept = {
            "the last page as HTML": self.html,
            "a picture of it": self.screenshot,
            "it as a PDF": self.pdf,
            "answers to its scripts": self.capture,
            f"{self.downloads} downloads": self.downloads,
        }
        return [*self.fields, *(words for words, is_kept in kept.items() if is_kept)]


class Flow(BaseModel):
    """A recording with its settings."""

    model_config = ConfigDict(frozen=True)

    recording: Recording
    collected: Collected = Collected()

    @cached_property
    def start_url(self) -> str:
        """The address of the first page; empty without one."""
        return next((step.url for step in self.recording.steps if isinstance(step, Navigate)), "")

    @cached_property
    def columns(self) -> list[str]:
        """The columns of a row that the steps use."""
        texts = _texts([_data(step) for step in self.recording.steps])
        return list(dict.fromkeys(name for text in texts for name in _column.findall(text)))

    def is_own(self, url: str) -> bool:
        """Returns True if an address belongs to the first page's site, or to a host in the settings."""
        parts = _split(url)
        if parts.scheme not in ("http", "https"):
            return False
        if load_sites().of(url).name == load_sites().of(self.start_url).name:
            return True
        return not {*patterns_of(parts.scheme, parts.netloc.lower())}.isdisjoint(self.collected.hosts)

    def filled(self, row: Mapping[str, Any]) -> "Flow":
        """Returns the flow with the values of a row in place of `{column}`. Raises UsageError when a value is
        missing."""
        if missing := [name for name in self.columns if row.get(name) in (None, "")]:
            raise UsageError(f"the row has no {' and no '.join(map(repr, missing))}, which the recording wants")
        steps = [_filled(_data(step), row) for step in self.recording.steps]
        outline = {"title": self.recording.title, "timeout": self.recording.timeout}
        return Flow(recording=Recording.model_validate({**outline, "steps": steps}), collected=self.collected)

    def as_data(self) -> dict[str, Any]:
        """Returns the flow as JSON data, which `Flow.model_validate` reads."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def faults(self) -> Iterator[str]:
        """Yields the forbidden actions of the recording, with their places."""
        if not self.start_url:
            yield "it opens no page: record it from the first page on, so that it has a step `navigate`"
            return
        is_open, closed = False, 0
        for number, step in enumerate(self.recording.steps, 1):
            is_open |= isinstance(step, Navigate)
            faults = [*_faults_of(self, step)]
            if closed:
                faults.append(f"the page was closed in step {closed}")
            elif not is_open and not isinstance(step, (SetViewport, EmulateNetworkConditions)):
                faults.append("no page is open yet: begin with `navigate`")
            yield from (f"step {number} ({step.type}): {fault}" for fault in faults)
            if isinstance(step, Close) and step.target == MAIN:
                closed = number


def _faults_of(flow: Flow, step: Any) -> Iterator[str]:
    """Yields the forbidden actions of a step."""
    addresses = [step.url] if isinstance(step, Navigate) else []
    addresses += [step.target] if step.target != MAIN else []
    for url in addresses:
        parts = _split(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield f"{url!r} is no http:// or https:// address"
        elif _column.search(f"{parts.scheme}{parts.netloc}"):
            yield f"{url!r}: a row cannot say which host is asked"
        elif not flow.is_own(url):
            yield (
                f"it leads to {parts.netloc}, and the flow begins at {_split(flow.start_url).netloc}. If both are of"
                f' one site, write hosts = ["{parts.netloc}"] beside the recording'
            )
    if isinstance(step, WaitForExpression) and not flow.collected.trusted:
        yield (
            "it runs JavaScript of the recording. Have it wait for an element (waitForElement), or read the script and"
            " write trusted = true beside the recording"
        )
    if isinstance(step, CustomStep):
        try:
            _ = step.fields
        except ValidationError as error:
            yield from (f"parameters.{place}: {said}" for place, said in problems(error, _Extract).items())
        if step.name != EXTRACT and not flow.collected.trusted:
            yield (
                f"nobody here knows the custom step {step.name!r}. Take it out, or write trusted = true beside the"
                " recording, so that it is passed over"
            )
    if isinstance(step, Change) and any(map(_password, _texts(step.selectors))) and not step.secrets:
        yield (
            "what it types seems to be a password. Write ${SESSION_COUNTY_PASSWORD} in its place, and the password into"
            " HARVESTER_SESSION_COUNTY_PASSWORD; COUNTY may be any name"
        )


def _split(url: str) -> SplitResult:
    """Returns the parts of an address; empty parts for an invalid one."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def words_of(step: Any) -> str:
    """Returns the action of a step in words for people."""
    on = repr(" >> ".join(step.selectors[0])) if getattr(step, "selectors", None) else "the page"
    match step:
        case SetViewport():
            return f"makes the window {step.width:g} x {step.height:g}" + (
                ", as of a telephone" if step.is_mobile else ""
            )
        case EmulateNetworkConditions(download=0, upload=0):
            return "takes the network away"
        case EmulateNetworkConditions():
            return f"slows the network down to {step.download / 1000:g} kB/s, and each answer by {step.latency:g} ms"
        case Navigate():
            return f"goes to {step.url}"
        case Click(type="doubleClick"):
            return f"double-clicks on {on}"
        case Click():
            return f"clicks on {on}" + ("" if step.button == "primary" else f" with the {step.button} button")
        case Hover():
            return f"moves the mouse onto {on}"
        case Change():
            return f"writes or chooses {step.value!r} in {on}"
        case Key(type="keyDown"):
            return f"presses the key {step.key}"
        case Key():
            return f"lets go of the key {step.key}"
        case Scroll():
            return f"scrolls {on} to {step.x:g}, {step.y:g}"
        case WaitForElement():
            number = {">=": "at least", "==": "exactly", "<=": "at most"}[step.operator]
            which = " with its attributes and properties" if step.attributes or step.properties else ""
            until = "until there are" if step.visible else "as long as there are"
            return f"waits {until} {number} {step.count} of {on}{which}"
        case WaitForExpression():
            return f"runs JavaScript until it is true: {step.expression}"
        case Close():
            return "closes the page" if step.target == MAIN else "closes that window"
        case CustomStep(name="extract"):
            try:
                return f"reads {', '.join(step.fields)}"
            except ValidationError:  # the flow's `faults` describe the error
                return "reads fields"
        case _:
            return f"passes over the custom step {step.name!r}"


# Reading both files ------------------------------------------------------------------------------------------


def parse_flow(recording: str, collected: str = "") -> Flow:
    """Reads a flow from the texts of both files. Raises UsageError with a line for each fault and its place.

    The flow's `faults` list the forbidden actions.
    """
    try:
        beside = Collected(**tomllib.loads(collected))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise refused("the file beside the recording", [f"it is no TOML: {error}"]) from None
    except ValidationError as error:
        said = [": ".join(filter(None, each)) for each in problems(error, Collected).items()]
        raise refused("the file beside the recording", said) from None
    try:
        return Flow(recording=Recording.model_validate_json(recording, strict=True), collected=beside)
    except ValidationError as error:
        raise refused("the recording", list(dict.fromkeys(map(_said, error.errors())))) from None


def refused(what: str, said: Iterable[str]) -> UsageError:
    """Returns the exception for the person who wrote the file."""
    return UsageError("\n".join([f"{what} cannot be used:".capitalize(), *(f"  {line}" for line in said)]))


def read_files(path: Path) -> tuple[str, str]:
    """Returns the texts of a recording and the settings file beside it, if there is one. Raises UsageError."""
    beside = path.with_suffix(".toml")
    return read_text(path), read_text(beside) if beside.is_file() else ""


def read_text(path: Path) -> str:
    """Returns the text of a file. Raises UsageError."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)  # a device may have no end
    except OSError as error:
        raise UsageError(f"The file {path} cannot be read: {error.strerror or error}.") from None
    if len(content) > MOST_BYTES:
        raise UsageError(f"The file {path} has too many bytes; at most {MOST_BYTES:,} are read.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"The file {path} is not UTF-8.") from None


def _said(error: ErrorDetails) -> str:
    """Returns a fault of the recording with its place: `step 3 (click): offsetX is missing`."""
    place = [str(part) for part in error["loc"]]
    where, kind, context = "", error["type"], error.get("ctx", {})
    if place[:1] == ["steps"] and len(place) > 1:
        step = f" ({place[2]})" if len(place) > 2 else ""
        where, place = f"step {int(place[1]) + 1}{step}: ", place[3:]
    name = ".".join(place)
    if kind == "missing":
        return f"{where}{name} is missing"
    if kind == "json_invalid":
        return f"it is no JSON: {context['error']}"
    if kind == "union_tag_not_found":
        return f"{where}it does not say its type"
    if kind == "union_tag_invalid":
        given = str(context["tag"])
        return f"{where}there is no step {given!r}{did_you_mean(given, TYPES) or '; there are ' + ', '.join(TYPES)}"
    if kind == "literal_error":
        return f"{where}{name} is {error['input']!r}, and must be {context['expected']}"
    if "timeout" in place and kind.startswith(("greater", "less")):
        return f"{where}{name} is {error['input']:g}, and must be 1 to 30000 milliseconds"
    return f"{where}{name}: {said_of(error)}" if name else f"{where}{said_of(error)}"


# Values of a row ---------------------------------------------------------------------------------------------


def _data(step: _Step) -> dict[str, Any]:
    return step.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for name, each in value.items() if name != "expression" for text in _texts(each))
    elif isinstance(value, (list, tuple)):
        yield from (text for each in value for text in _texts(each))


def _filled(value: Any, row: Mapping[str, Any], *, in_address: bool = False) -> Any:
    """Returns the data with the row's values in all texts except scripts; in addresses they are quoted."""
    if isinstance(value, str):
        as_written = (lambda text: quote(text, safe="")) if in_address else str
        return _column.sub(lambda found: as_written(str(row[found[1]])), value)
    if isinstance(value, Mapping):
        return {
            name: each if name == "expression" else _filled(each, row, in_address=name in ("url", "target"))
            for name, each in value.items()
        }
    return [_filled(each, row) for each in value] if isinstance(value, (list, tuple)) else value
