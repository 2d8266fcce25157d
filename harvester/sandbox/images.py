"""Pictures of the generated network: small, visibly different, and drawn when they are first requested."""

import colorsys
import io
import math
import random
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from PIL import Image, ImageDraw

from harvester.sandbox.ids import raw_cid

Family = Literal["avatar", "banner", "picture"]
Colour = tuple[int, int, int]

POOL: dict[Family, int] = {"avatar": 96, "banner": 24, "picture": 48}
"""Number of different pictures in each family; accounts share them."""

MIME = {"jpeg": "image/jpeg", "png": "image/png", "webp": "image/webp"}
_FASTEST: dict[str, dict[str, int]] = {"jpeg": {}, "png": {"compress_level": 1}, "webp": {"method": 0}}
"""Options for Pillow that prefer speed to size, since each process draws its pictures again."""

VIDEO = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + bytes(2_008)
"""Bytes of the video blob: only their number and their CID matter."""

_SKINS: tuple[Colour, ...] = ((255, 224, 196), (241, 194, 150), (198, 134, 92), (141, 85, 54), (92, 56, 38))
_HAIRS: tuple[Colour, ...] = (
    (38, 28, 26),
    (92, 58, 36),
    (176, 116, 58),
    (232, 196, 120),
    (150, 152, 160),
    (170, 66, 44),
)
_PICTURE_SIZES = ((640, 400), (480, 480), (400, 600), (800, 320))
_WIDTHS = {"avatar": 256, "banner": 750, "feed_thumbnail": 320, "feed_fullsize": 800}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture blob of the network."""

    cid: str
    content: bytes
    mime: str
    width: int
    height: int


_drawn: dict[str, Picture] = {}
"""The drawn pictures by CID."""


@lru_cache(256)
def picture(family: Family, number: int) -> Picture:
    """Returns a picture from the pool, which is the same in every network."""
    drawn = _draw(family, number % POOL[family])
    kind = ("jpeg", "png", "webp")[number % 3] if family == "picture" else "jpeg"
    content = _encode(drawn, kind)
    made = _drawn[raw_cid(content)] = Picture(raw_cid(content), content, MIME[kind], drawn.width, drawn.height)
    return made


@lru_cache(1)
def video_cid() -> str:
    return raw_cid(VIDEO)


def _known(cid: str) -> Picture | None:
    """Returns the picture with a CID. Draws all pictures for a CID that another process has made."""
    if cid not in _drawn:
        for family, amount in POOL.items():
            for number in range(amount):
                picture(family, number)
    return _drawn.get(cid)


def blob(cid: str) -> tuple[bytes, str] | None:
    """Returns content and type of a blob as its owner uploaded it."""
    if cid == video_cid():
        return VIDEO, "video/mp4"
    found = _known(cid)
    return (found.content, found.mime) if found else None


@lru_cache(2_000)
def rendition(preset: str, cid: str, kind: str) -> bytes | None:
    """Returns a blob in the size and format of the image server."""
    found = _known(cid)
    if found is None:
        return None
    drawn = Image.open(io.BytesIO(found.content)).convert("RGB")
    width = min(_WIDTHS[preset], drawn.width)
    return _encode(drawn.resize((width, round(drawn.height * width / drawn.width))), kind)


def bomb(kind: str, side: int = 30_000) -> bytes:
    """Returns a small file whose header announces an enormous picture."""
    if kind == "png":
        content = bytearray(_encode(Image.new("1", (8, 8)), "png"))
        content[16:24] = side.to_bytes(4) * 2
        content[29:33] = _png_crc(bytes(content[12:29]))
        return bytes(content)
    content = bytearray(_encode(Image.new("RGB", (8, 8)), "jpeg"))
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = side.to_bytes(2) * 2
    return bytes(content)


def _png_crc(chunk: bytes) -> bytes:
    return zlib.crc32(chunk).to_bytes(4)


def _encode(drawn: Image.Image, kind: str) -> bytes:
    target = io.BytesIO()
    drawn.save(target, kind.upper(), quality=82, **_FASTEST[kind])
    return target.getvalue()


def _draw(family: Family, number: int) -> Image.Image:
    dice = random.Random(f"{family} {number}")
    if family == "avatar":
        return _portrait(dice, number)
    if family == "banner":
        return _landscape(dice, 750, 250)
    return _landscape(dice, *_PICTURE_SIZES[number % len(_PICTURE_SIZES)])


def _colour(hue: float, saturation: float, value: float) -> Colour:
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, value)
    return round(red * 255), round(green * 255), round(blue * 255)


def _gradient(width: int, height: int, top: Colour, bottom: Colour) -> Image.Image:
    blend = Image.linear_gradient("L").resize((1, height))
    column = Image.composite(Image.new("RGB", blend.size, bottom), Image.new("RGB", blend.size, top), blend)
    return column.resize((width, height), Image.Resampling.NEAREST)


def _portrait(dice: random.Random, number: int) -> Image.Image:
    side = 512
    hue = number * 0.618
    drawn = _gradient(side, side, _colour(hue, 0.35, 0.98), _colour(hue + 0.12, 0.6, 0.85))
    pen = ImageDraw.Draw(drawn)
    skin, hair = dice.choice(_SKINS), dice.choice(_HAIRS)
    shirt = _colour(hue + dice.choice((0.4, 0.5, 0.6)), 0.6, 0.75)
    if number % 2:
        length = dice.choice((330, 400))
        pen.rounded_rectangle((140, 110, 372, length), 110, fill=hair)
    pen.ellipse((70, 380, 442, 700), fill=shirt)
    pen.rounded_rectangle((222, 310, 290, 430), 30, fill=tuple(round(part * 0.88) for part in skin))
    pen.ellipse((160, 120, 352, 360), fill=skin)
    pen.pieslice((148, 96, 364, 330), 180 + dice.choice((0, 10)), 360 - dice.choice((0, 14)), fill=hair)
    pen.ellipse((176, 170 + dice.choice((4, 14)), 336, 260), fill=skin)
    for left in (208, 284):
        pen.ellipse((left, 232, left + 20, 256), fill=(40, 34, 40))
    if number % 5 == 2:
        for left in (192, 268):
            pen.ellipse((left, 216, left + 54, 270), outline=(50, 44, 50), width=6)
        pen.line((246, 242, 268, 242), fill=(50, 44, 50), width=6)
    pen.arc((216, 250, 296, 316), 25, 155, fill=(150, 60, 60), width=8)
    return drawn.reduce(2)


def _landscape(dice: random.Random, width: int, height: int) -> Image.Image:
    hue = dice.random()
    drawn = _gradient(width, height, _colour(hue, 0.45, 0.95), _colour(hue + 0.1, 0.25, 1.0))
    pen = ImageDraw.Draw(drawn)
    radius = height // dice.randint(6, 10)
    across, down = dice.randint(radius, width - radius), dice.randint(radius, height // 2)
    pen.ellipse((across - radius, down - radius, across + radius, down + radius), fill=_colour(hue + 0.45, 0.2, 1.0))
    for layer in range(4):
        base, swing = height * (0.45 + 0.14 * layer), height * dice.uniform(0.04, 0.12)
        phase, waves = dice.uniform(0, 6), dice.uniform(1, 3)
        ridge = [(x, base + swing * math.sin(phase + waves * 2 * math.pi * x / width)) for x in range(0, width + 9, 8)]
        pen.polygon([(0, height), *ridge, (width, height)], fill=_colour(hue + 0.5, 0.4, 0.8 - 0.17 * layer))
    return drawn
