"""What a spider hands on in meta and cb_kwargs comes back as it was, and what comes from Redis calls no constructor."""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum, auto
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pytest
from pydantic import BaseModel, PrivateAttr
from scrapy import Field, Item, Request, Spider
from scrapy.loader import ItemLoader

from harvester.frontier.codec import UnserialisableRequestError, address_of, decode, encode, has_items
from harvester.internal_meta import ITEMS

URL = "http://127.0.0.1/"


class Values(Spider):
    name = "values"

    def parse(self, response: Any) -> None: ...


SPIDER = Values()


class Book(Item):
    title = Field()
    pages = Field()


class Careful(Item):
    title = Field()

    def __init__(self) -> None:
        raise AssertionError("a constructor was called")


@dataclass
class Meeting:
    title: str
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        CALLS.append(self.title)


@dataclass(frozen=True, slots=True)
class Place:
    x: Decimal
    y: Decimal


@attrs.define
class Parcel:
    number: str
    values: dict[int, Decimal] = attrs.Factory(dict)


class Owner(BaseModel):
    name: str
    since: date | None = None
    _seen: int = PrivateAttr(default=0)


class Point(NamedTuple):
    x: int
    y: int


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


class Rights(Flag):
    READ = auto()
    WRITE = auto()


class Outer:
    class Inner(Enum):
        ONE = 1


class Text(str):
    __slots__ = ()


CALLS: list[str] = []
"""Titles of meetings that were constructed."""


def owner() -> Owner:
    made = Owner(name="A", since=date(2020, 2, 29))
    made._seen = 7
    return made


def with_more() -> Meeting:
    made = Meeting("A", ["b"])
    made.more = {1}  # type: ignore[attr-defined]
    return made


VALUES: dict[str, Callable[[], Any]] = {
    "date": lambda: date(2026, 11, 29),
    "time": lambda: time(1, 2, 3, 4, tzinfo=UTC),
    "timedelta": lambda: timedelta(days=-1, microseconds=5),
    "zone": lambda: ZoneInfo("Europe/Berlin"),
    "zoned": lambda: datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    "offset": lambda: datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-5))),
    "decimal": lambda: Decimal("1.10"),
    "no number": lambda: Decimal("-Infinity"),
    "fraction": lambda: Fraction(1, 3),
    "complex": lambda: complex(1, -0.0),
    "uuid": lambda: UUID(int=5),
    "large": lambda: -(2**64),
    "bytearray": lambda: bytearray(b"\xff"),
    "set": lambda: {1, "a", (2, 3)},
    "frozenset": lambda: frozenset({frozenset({1}), b"x"}),
    "deque": lambda: deque([1, 2], maxlen=2),
    "range": lambda: range(1, 9, 2),
    "path": lambda: Path("/tmp/a b"),
    "ordered": lambda: OrderedDict([("b", 1), ("a", 2)]),
    "counter": lambda: Counter("aab"),
    "default": lambda: defaultdict(list, {"a": [1]}),
    "keys": lambda: {(1, 2): "a", None: "b", date(2026, 1, 1): {True: 1}},
    "item": lambda: Book(title="x", pages={date(2026, 1, 1)}),
    "dataclass": with_more,
    "frozen": lambda: Place(Decimal("1.0"), Decimal(2)),
    "attrs": lambda: Parcel("1", {2026: Decimal(5)}),
    "pydantic": owner,
    "namedtuple": lambda: Point(1, 2),
    "enum": lambda: Colour.RED,
    "int enum": lambda: Level.HIGH,
    "text enum": lambda: Word.YES,
    "flags": lambda: Rights.READ | Rights.WRITE,
    "nested class": lambda: Outer.Inner.ONE,
    "deep": lambda: [{"a": (Place(Decimal(1), Decimal(2)), {Colour.RED: [Book(title=Point(1, 2))]})}],
}


def through_frontier(value: Any) -> Any:
    request = Request(URL, SPIDER.parse, meta={"value": value}, cb_kwargs={"value": value})
    back = decode(encode(request, SPIDER), SPIDER)
    assert repr(back.cb_kwargs["value"]) == repr(back.meta["value"])
    return back.meta["value"]


@pytest.mark.parametrize("name", VALUES)
def test_what_a_spider_hands_on_comes_back_as_it_was(name: str) -> None:
    value = VALUES[name]()
    CALLS.clear()
    back = through_frontier(value)
    assert type(back) is type(value)
    assert back == value
    assert getattr(back, "__dict__", {}) == getattr(value, "__dict__", {})
    assert getattr(back, "tzinfo", None) == getattr(value, "tzinfo", None)
    assert getattr(back, "fold", 0) == getattr(value, "fold", 0)
    assert not CALLS, "a constructor was called"


def test_private_values_of_a_model_come_back() -> None:
    assert through_frontier(owner())._seen == 7


def test_a_defaultdict_goes_on_making_what_it_lacks() -> None:
    back = through_frontier(defaultdict(list))
    back["new"].append(1)
    assert back == {"new": [1]}


def test_an_item_comes_back_without_its_constructor() -> None:
    item = Careful.__new__(Careful)
    Item.__init__(item)
    item["title"] = "x"
    assert dict(through_frontier(item)) == {"title": "x"}


def test_texts_of_other_classes_come_back_as_texts() -> None:
    assert type(through_frontier(Text("a"))) is str


def local() -> Any:
    @dataclass
    class Inner:
        x: int

    return Inner(1)


REFUSED = {
    "class in a function": (local, "local.<locals>.Inner"),
    "loader": (lambda: ItemLoader(Book()), "ItemLoader"),
    "factory": (lambda: defaultdict(lambda: 1), "defaultdict"),
    "object": (object, "an object"),
    "class": (lambda: Book, "ItemMeta"),
    "own keys": (lambda: Book.fields.__class__, "a type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_refused_with_its_place(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(UnserialisableRequestError) as caught:
        encode(Request(URL, meta={"deep": [make()]}), SPIDER)
    assert said in str(caught.value)
    assert "deep" in str(caught.value) or "defaultdict" in str(caught.value)


def forged(*written: Any, code: int = 3) -> bytes:
    """What somebody who can write to Redis makes up."""
    extension = msgspec.msgpack.Ext(code, msgspec.msgpack.encode(written))
    return msgspec.msgpack.encode({"u": URL, "t": {"value": extension}})


FORGED = {
    "a function": ("object", ["dataclass", "os", "system", {}]),
    "a class of another family": ("object", ["dataclass", "subprocess", "Popen", {}]),
    "a family that is none": ("object", ["pickle", "subprocess", "Popen", {}]),
    "a module that is not imported": ("object", ["Enum", "antigravity", "fly", 1]),
    "a part of another module": ("object", ["Enum", "idlelib.idle", "x", 1]),
    "a value that an enum has not": ("object", ["Enum", __name__, "Colour", "green"]),
    "a field that an item has not": ("object", ["Item", __name__, "Book", {"x": 1}]),
    "fields that are none": ("object", ["attrs", __name__, "Parcel", 5]),
    "a state that is none": ("object", ["BaseModel", __name__, "Owner", 5]),
    "no type": ("eval", "1"),
    "no pair": ("int",),
    "no number": ("int", "x"),
    "no zone": ("ZoneInfo", "../../etc/passwd"),
    "keys that are lists": ("dict", [[[1], 2]]),
    "a date of none": ("date", 7),
    "a division by zero": ("Fraction", [1, 0]),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_forged_is_refused_and_imports_nothing(name: str) -> None:
    before = set(sys.modules)
    with pytest.raises(UnserialisableRequestError, match=" read"):
        decode(forged(*FORGED[name]), SPIDER)
    assert not {"antigravity", "idlelib.idle"} & (set(sys.modules) - before)


def test_a_request_is_listed_whose_classes_are_not_here() -> None:
    request = Request(URL, priority=3, meta={"value": Book(title="x"), ITEMS: [["job", "item", 1]]})
    data = encode(request, SPIDER).replace(b"test_values", b"gone_values")
    with pytest.raises(UnserialisableRequestError, match=" read"):
        decode(data, SPIDER)
    assert address_of(data) == (URL, 3)
    assert has_items(data)
