"""Converts bytes of unknown origin into a safe JPEG."""

import warnings
from io import BytesIO

from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from harvester.exceptions import FileError

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
_ORIENTATION = 0x0112
_LARGEST_SIDE = 65_500
"""Pixels that the JPEG encoder accepts."""
_QUALITY = 90
_START_OF_SCAN = b"\xff\xda"
MOST_MEMORY = 200 * 1024 * 1024
"""Bytes that reading an image may take, beside its file."""

PngImagePlugin.MAX_TEXT_MEMORY = 4 * 1024 * 1024  # default 64 MiB, for compressed comments; they are not saved
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)  # refused instead of logged


def to_jpeg(body: bytes, most_pixels: int, most_memory: int = MOST_MEMORY) -> bytes:
    """Returns a JPEG without transparency, rotated by its EXIF data. A JPEG that needs no change is returned
    unchanged.

    Raises FileError: empty, not_an_image, unsupported_format, too_many_pixels, truncated, damaged.
    """
    if not body:
        raise FileError("empty")
    Image.MAX_IMAGE_PIXELS = most_pixels
    try:
        with Image.open(BytesIO(body), formats=_FORMATS) as image:
            _check_size(image, body, most_pixels, most_memory)
            return body if _is_plain_jpeg(image) else _converted(image)
    except FileError:
        raise
    except Exception as error:  # noqa: BLE001  hostile bytes make the decoders raise nearly anything
        raise _refusal(body, error) from None


def _check_size(image: Image.Image, body: bytes, most_pixels: int, most_memory: int) -> None:
    """Checks the size in the header, before decoding."""
    width, height = image.size
    if width * height > most_pixels or max(width, height) > _LARGEST_SIDE:
        raise FileError("too_many_pixels", f"{width} x {height}")
    if (needed := width * height * _bytes_a_pixel(image, body)) > most_memory:
        raise FileError("too_many_pixels", f"{width} x {height}, which take {needed >> 20} MB to read")


def _bytes_a_pixel(image: Image.Image, body: bytes) -> int:
    """Returns the maximum memory a pixel during the conversion. Measured, see tests/images/test_picture.py."""
    if isinstance(image, JpegImageFile):
        coefficients = 0 if _is_of_one_scan(image, body) else 2 * image.layers
        return coefficients + (1 if _stays(image) else 9)
    return 20 if image.format == "WEBP" else 9 if image.mode in ("RGB", "RGBA") else 13


def _is_of_one_scan(image: JpegImageFile, body: bytes) -> bool:
    """Returns True for a single scan; else the decoder holds all scans. The file was read up to the first scan."""
    assert image.fp
    marker = image.fp.tell() - 8 - 2 * image.layers
    return "progressive" not in image.info and body[marker : marker + 2] == _START_OF_SCAN


def _is_plain_jpeg(image: Image.Image) -> bool:
    """Returns True if the image can be saved unchanged. Decodes it, to detect damage."""
    if not isinstance(image, JpegImageFile) or not _stays(image):
        return False
    image.draft(None, (image.width // 8 or 1, image.height // 8 or 1))  # an eighth: the same bytes, less work
    image.load()
    return True


def _stays(image: JpegImageFile) -> bool:
    return image.mode in ("RGB", "L") and image.getexif().get(_ORIENTATION, 1) not in range(2, 9)


def _converted(image: Image.Image) -> bytes:
    """Converts the image with at most two copies in memory, beside the decoder's own."""
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I;16"):
        image = image.point(lambda value: value / 256).convert("L")
    if image.has_transparency_data:
        image = image if image.mode == "RGBA" else image.convert("RGBA")
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image)
        image = flat
    elif image.mode != "RGB":
        image = image.convert("RGB")
    image.info = {}  # comments and XMP would be written out again
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()


def _refusal(body: bytes, error: Exception) -> FileError:
    if isinstance(error, (Image.DecompressionBombWarning, Image.DecompressionBombError)):
        return FileError("too_many_pixels", str(error))
    is_webp = body[:4] == b"RIFF" and body[8:12] == b"WEBP"
    cut_webp = is_webp and int.from_bytes(body[4:8], "little") + 8 > len(body)
    if cut_webp or "truncated" in str(error).lower():
        return FileError("truncated", f"after {len(body)} bytes")
    if not isinstance(error, UnidentifiedImageError):
        return FileError("damaged", f"{type(error).__name__}: {error}")
    if body.startswith(_SIGNATURES):
        return FileError("truncated", f"after {len(body)} bytes")
    if body.lstrip()[:1] in (b"<", b"{", b"["):
        return FileError("not_an_image", "it begins like HTML or JSON")
    return FileError("unsupported_format", f"it begins with {body[:8]!r}")
