"""Pictures as they come from the network: good, odd, broken and hostile."""

import struct
import zlib
from io import BytesIO

from PIL import Image

SIZE = (60, 40)


def encoded(image: Image.Image, file_format: str, **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


def painted(colour: str = "steelblue", size: tuple[int, int] = SIZE) -> Image.Image:
    """One colour, with a red quarter in the upper left corner."""
    image = Image.new("RGB", size, colour)
    image.paste("red", (0, 0, size[0] // 2, size[1] // 2))
    return image


def noise(size: tuple[int, int]) -> Image.Image:
    """Does not compress well."""
    return Image.effect_noise(size, 90).convert("RGB")


def rotated() -> bytes:
    """EXIF asks to turn it by 90 degrees clockwise; it also names a camera."""
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x0110] = "Camera of Alice"
    return encoded(painted(), "JPEG", quality=95, exif=exif)


def bomb() -> bytes:
    """A small PNG that says it has 900 million pixels."""
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


HALF_TRANSPARENT = Image.new("RGBA", SIZE, (0, 0, 0, 0))
HALF_TRANSPARENT.paste((0, 0, 255, 255), (0, 0, SIZE[0] // 2, SIZE[1]))

JPEG = encoded(painted(), "JPEG", quality=95)
HTML = b"<!DOCTYPE html><html><body>Please log in</body></html>"

GOOD: dict[str, bytes] = {
    "plain.jpg": JPEG,
    "grey.jpg": encoded(painted().convert("L"), "JPEG"),
    "progressive.jpg": encoded(painted(), "JPEG", progressive=True),
    "cmyk.jpg": encoded(painted().convert("CMYK"), "JPEG"),
    "rotated.jpg": rotated(),
    "plain.png": encoded(painted(), "PNG"),
    "deep.png": encoded(Image.new("I;16", SIZE, 51_400), "PNG"),
    "palette.png": encoded(painted().convert("P"), "PNG", transparency=0),
    "alpha.png": encoded(HALF_TRANSPARENT, "PNG"),
    "plain.webp": encoded(painted(), "WEBP"),
    "alpha.webp": encoded(HALF_TRANSPARENT, "WEBP", lossless=True),
    "moving.gif": encoded(painted(), "GIF", save_all=True, append_images=[painted("black")], comment=b"secret"),
}
REFUSED: dict[str, tuple[bytes, str]] = {
    "html.jpg": (HTML, "not_an_image"),
    "json.jpg": (b'{"picture":null}', "not_an_image"),
    "empty.jpg": (b"", "empty"),
    "truncated.jpg": (JPEG[: len(JPEG) // 2], "truncated"),
    "truncated.png": (GOOD["plain.png"][:60], "truncated"),
    "truncated.webp": (GOOD["plain.webp"][:-20], "truncated"),
    "truncated.gif": (GOOD["moving.gif"][:100], "truncated"),
    "headless.jpg": (JPEG[:10], "truncated"),
    "bomb.png": (bomb(), "too_many_pixels"),
    "wide.png": (encoded(Image.new("1", (70_000, 2)), "PNG"), "too_many_pixels"),
    "bitmap.bmp": (encoded(painted(), "BMP"), "unsupported_format"),
    "photo.tiff": (encoded(painted(), "TIFF"), "unsupported_format"),
}
