"""What is made of the bytes of a picture, whatever they are."""

import pickle
import subprocess
import sys
from io import BytesIO

import pytest
from PIL import Image

from harvester.exceptions import FileError
from harvester.pipelines.picture import to_jpeg
from tests.images.samples import GOOD, JPEG, REFUSED, SIZE, encoded, painted

MOST_PIXELS = 50_000_000


def opened(content: bytes) -> Image.Image:
    image = Image.open(BytesIO(content))
    image.load()
    return image


def looks_like(image: Image.Image, at: tuple[int, int], colour: tuple[int, int, int]) -> bool:
    found = image.convert("RGB").getpixel(at)
    assert isinstance(found, tuple)
    return all(abs(a - b) < 24 for a, b in zip(found, colour, strict=True))


@pytest.mark.parametrize("name", GOOD)
def test_every_good_picture_becomes_a_whole_jpeg(name: str) -> None:
    image = opened(to_jpeg(GOOD[name], MOST_PIXELS))

    assert image.format == "JPEG"
    assert image.mode == ("L" if name == "grey.jpg" else "RGB")
    assert sorted(image.size) == sorted(SIZE)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_whole_picture_of_bearable_size_is_refused_with_its_reason(name: str) -> None:
    body, reason = REFUSED[name]

    with pytest.raises(FileError) as refused:
        to_jpeg(body, MOST_PIXELS)

    assert refused.value.reason == reason


@pytest.mark.parametrize("name", ["plain.jpg", "grey.jpg", "progressive.jpg"])
def test_a_jpeg_that_needs_no_change_keeps_its_bytes(name: str) -> None:
    assert to_jpeg(GOOD[name], MOST_PIXELS) == GOOD[name]


def test_a_picture_is_turned_as_its_exif_says_and_its_metadata_dropped() -> None:
    content = to_jpeg(GOOD["rotated.jpg"], MOST_PIXELS)
    image = opened(content)

    assert image.size == SIZE[::-1]
    assert looks_like(image, (SIZE[1] - 5, 5), (255, 0, 0))  # the red quarter came to the upper right
    assert not image.getexif()
    assert b"Alice" not in content


def test_comments_are_not_carried_over() -> None:
    assert b"secret" in GOOD["moving.gif"]
    assert b"secret" not in to_jpeg(GOOD["moving.gif"], MOST_PIXELS)


@pytest.mark.parametrize("name", ["alpha.png", "alpha.webp"])
def test_what_is_transparent_becomes_white(name: str) -> None:
    image = opened(to_jpeg(GOOD[name], MOST_PIXELS))

    assert looks_like(image, (10, 20), (0, 0, 255))
    assert looks_like(image, (50, 20), (255, 255, 255))


def test_only_the_first_frame_of_a_moving_picture_is_kept() -> None:
    image = opened(to_jpeg(GOOD["moving.gif"], MOST_PIXELS))

    assert looks_like(image, (50, 30), (70, 130, 180))


def test_sixteen_bits_a_pixel_keep_their_brightness() -> None:
    image = opened(to_jpeg(GOOD["deep.png"], MOST_PIXELS))

    assert looks_like(image, (5, 5), (200, 200, 200))


def test_the_bound_on_pixels_is_exact() -> None:
    png = encoded(painted(size=(100, 10)), "PNG")

    to_jpeg(png, 1000)
    with pytest.raises(FileError, match="too_many_pixels"):
        to_jpeg(png, 999)


@pytest.mark.parametrize("cut", range(0, len(JPEG), 97))
def test_no_beginning_of_a_picture_passes_for_the_picture(cut: int) -> None:
    with pytest.raises(FileError):
        to_jpeg(JPEG[:cut], MOST_PIXELS)


def flat(name: str) -> bytes:
    """A picture of one colour, whose file is small. `name` says its kind and what is odd about it."""
    kind, mode, *odd = name.split()
    options: dict[str, object] = {"lossless": True} if kind == "WEBP" else {}
    if "progressive" in odd:
        options |= {"progressive": True, "subsampling": 0}
    if "turned" in odd:
        options["exif"] = turned = Image.Exif()
        turned[0x0112] = 6
    if "transparent" in odd:
        options["transparency"] = 0
    return encoded(Image.new(mode, FLAT), kind, **options)


FLAT = (2000, 2000)
MEASURED = """
JPEG RGB
JPEG RGB progressive
JPEG L progressive
JPEG RGB turned
JPEG RGB progressive turned
JPEG CMYK
JPEG CMYK progressive
PNG L
PNG RGB
PNG RGB turned
PNG RGBA
PNG LA
PNG I;16
PNG 1
PNG P transparent
GIF P transparent
WEBP RGB
WEBP RGBA
""".strip().splitlines()
MEASURE = """
import pickle, sys
from harvester.pipelines.picture import to_jpeg, _bytes_a_pixel
from PIL import Image
import ctypes
import pickle
import subprocess
import sys
from io import BytesIO

def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

def reset():
    open("/proc/self/clear_refs", "w").write("5")

pictures = pickle.loads(sys.stdin.buffer.read())
for small in pictures.values():
    to_jpeg(small[1], 10**8)
def taken(body):
    ctypes.CDLL(None).malloc_trim(0)  # else memory that was used before is used again, and not counted
    reset()
    before = peak()
    to_jpeg(body, 10**8)
    return peak() - before

for name, (body, _) in pictures.items():
    least = min(taken(body) for _ in range(3))  # the system may just have taken pages away that come back
    with Image.open(BytesIO(body)) as image:
        print(name, least / (2000 * 2000), _bytes_a_pixel(image, body), sep="|")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_no_picture_takes_more_memory_than_is_said_of_its_kind() -> None:
    """In a process of its own: what a picture is said to take decides whether it is read at all."""
    pictures = {name: (flat(name), GOOD["plain.png"]) for name in MEASURED}
    told = subprocess.run(
        [sys.executable, "-c", MEASURE], input=pickle.dumps(pictures), capture_output=True, check=True, timeout=120
    )
    lines = [line.split("|") for line in told.stdout.decode().splitlines()]
    assert len(lines) == len(MEASURED)
    beyond = [line for line in lines if float(line[1]) > float(line[2]) + 0.5]
    assert not beyond, lines


@pytest.mark.parametrize("name", ["WEBP RGBA", "PNG LA", "JPEG CMYK progressive"])
def test_a_picture_that_takes_too_much_memory_is_refused_before_it_is_read(name: str) -> None:
    body = flat(name)
    assert len(body) < 200_000
    to_jpeg(body, MOST_PIXELS)
    with pytest.raises(FileError, match=r"too_many_pixels: 2000 x 2000.* \d\d MB"):
        to_jpeg(body, MOST_PIXELS, most_memory=40_000_000)
