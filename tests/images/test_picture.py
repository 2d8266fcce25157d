"""What is made of the bytes of a picture, whatever they are."""

from io import BytesIO

import pytest
from PIL import Image

from harvester.pipelines.picture import PictureError, to_jpeg
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

    with pytest.raises(PictureError) as refused:
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
    with pytest.raises(PictureError, match="too_many_pixels"):
        to_jpeg(png, 999)


@pytest.mark.parametrize("cut", range(0, len(JPEG), 97))
def test_no_beginning_of_a_picture_passes_for_the_picture(cut: int) -> None:
    with pytest.raises(PictureError):
        to_jpeg(JPEG[:cut], MOST_PIXELS)
