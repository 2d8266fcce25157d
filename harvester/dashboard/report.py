"""The picture of a harvest: a self-contained HTML file with data from MongoDB."""

import io
import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template
from PIL import Image, ImageOps
from pymongo.errors import PyMongoError

from harvester.config import Config
from harvester.dashboard.figures import Figures, Person, gather
from harvester.dashboard.graph import Point, groups, label, place, ties
from harvester.dashboard.timeline import Timeline
from harvester.exceptions import StorageError, UsageError
from harvester.formatting import plural, spaced
from harvester.stores.mongodb import connect_sync, unavailable
from harvester.stores.private_files import make_closed

WIDTH, HEIGHT = 1000, 720
"""Width and height of the graph, in units of the drawing."""

SMALLEST, LARGEST = 11.0, 48.0
"""Smallest and largest radius of a node."""

LABELLED = 15
"""Number of nodes with a name: the most followed."""

LISTED = 50
"""Maximum number of accounts in the table."""

_LONGEST_LABEL = 22
"""Maximum number of characters of a label."""

_LABEL_ROOM = 12.0
"""Addition to the radius of a node with a name, so that fewer nodes lie under the name."""

_NAMED = 3
"""Number of accounts that name a group."""

_THUMBNAIL_PIXELS = 64

_SCRIPT = files(__package__).joinpath("report.js").read_text("utf-8")
"""The script that sorts tables. The page permits no other script."""

_LANGUAGES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish",
    "fr": "French", "hi": "Hindi", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ru": "Russian", "sv": "Swedish",
    "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese",
}  # fmt: skip


def write_report(config: Config, job: str = "", out: Path | None = None) -> Path:
    """Writes the picture of the configured database, or of a job, and returns the path.

    Raises UsageError when there is nothing to show, ServiceError when MongoDB is unreachable, StorageError when the
    file cannot be written.
    """
    try:
        database = connect_sync(config)
        with database.client:
            figures = gather(database, job)
    except PyMongoError as error:
        raise unavailable(error) from None
    if not any(figures.counts.values()):
        scope = f"of the job {job} " if job else ""
        raise UsageError(f"There are no records {scope}in the database {config.database}.")
    path = out or config.data_dir / "reports" / f"{job or config.database}.html"
    try:
        make_closed(path.parent)
        path.write_text(render(figures, Path(config.images_location)), "utf-8")
    except OSError as error:
        raise StorageError(f"The report cannot be written to {path}: {error.strerror}") from None
    return path


def render(figures: Figures, images: Path) -> str:
    """Returns the page. `images`: the folder of the pictures; missing pictures are drawn as initials."""
    shown = ties(len(figures.people), figures.follows)
    told = [edge for edge in figures.follows if not {*edge}.intersection(shown.hubs)]
    of_group = groups(len(figures.people), told)
    return template().render(
        figures=figures,
        nodes=draw_nodes(figures, images, shown.lines, of_group),
        size=(WIDTH, HEIGHT),
        lines=shown.lines,
        most_accounts=LISTED,
        hubs=[figures.people[hub].handle for hub in shown.hubs],
        groups=_legend(figures, of_group),
        timeline=Timeline.of(figures.days),
        sales=Timeline.of(figures.sale_days),
        languages=[(_LANGUAGES.get(code, code), count) for code, count in figures.languages],
        made=datetime.now(UTC),
        post_address=post_address,
        script=_SCRIPT,
        script_digest=b64encode(sha256(_SCRIPT.encode()).digest()).decode(),
    )


@cache
def template() -> Template:
    """Returns the template of the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "spaced": spaced,
        "plural": plural,
        "grouped": "{:,}".format,
        "short": short,
        "when": "{:%d %B %Y, %H:%M} UTC".format,
    }
    return environment.from_string(files(__package__).joinpath("report.html").read_text("utf-8"))


@dataclass(frozen=True)
class FollowGroup:
    """Accounts that follow each other more than others."""

    number: int
    names: list[str]
    """Names of the group's most followed accounts."""
    others: int


def _legend(figures: Figures, of_group: Sequence[int]) -> list[FollowGroup]:
    members: dict[int, list[str]] = {}
    for person, number in zip(figures.people, of_group, strict=True):
        members.setdefault(number, []).append(short(person.name, _LONGEST_LABEL))
    return [
        FollowGroup(number, names[:_NAMED], max(0, len(names) - _NAMED))
        for number, names in sorted(members.items())
        if number >= 0
    ]


@dataclass(frozen=True)
class Node:
    """An account in the picture."""

    person: Person
    x: float
    y: float
    radius: float
    label: Point | None
    """Middle of the name's base line; None without a name."""
    picture: str
    """A data: URL; empty without a picture."""
    group: int
    """Number of the group; -1 without a group."""

    @property
    def name(self) -> str:
        """Returns the name in the picture."""
        return short(self.person.name, _LONGEST_LABEL)

    @property
    def initial(self) -> str:
        return next((letter for letter in self.person.name if letter.isalnum()), "?").upper()


def draw_nodes(figures: Figures, images: Path, lines: Sequence[tuple[int, int]], of_group: Sequence[int]) -> list[Node]:
    """Returns the nodes of the graph, in the order of `figures.people`."""
    radii = _radii([person.followers for person in figures.people])
    rooms = [radius + (_LABEL_ROOM if rank < LABELLED else 0) for rank, radius in enumerate(radii)]
    points = place(rooms, lines, WIDTH, HEIGHT)
    names = [short(person.name, _LONGEST_LABEL) for person in figures.people[:LABELLED]]
    labels = label(points, radii, names, WIDTH) + [None] * len(figures.people)
    return [
        Node(person, round(x, 1), round(y, 1), round(radius, 1), at, thumbnail(images, person.picture), group)
        for person, radius, (x, y), at, group in zip(figures.people, radii, points, labels, of_group, strict=False)
    ]


def _radii(followers: Sequence[int]) -> list[float]:
    """Returns radii such that areas grow with the followers. Fewer nodes may be larger than many."""
    if not followers:
        return []
    most = max(followers)
    room = min(1.0, math.sqrt(60 / len(followers)))
    return [max(SMALLEST, LARGEST * room * math.sqrt(count / most)) for count in followers]


def thumbnail(images: Path, picture: str) -> str:
    """Returns a small copy of a stored picture as a data: URL; empty if it cannot be read."""
    path = (images / picture).resolve()
    if not picture or not path.is_relative_to(images.resolve()) or not path.is_file():
        return ""
    buffer = io.BytesIO()
    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * _THUMBNAIL_PIXELS, 2 * _THUMBNAIL_PIXELS))
            small = ImageOps.fit(image.convert("RGB"), (_THUMBNAIL_PIXELS, _THUMBNAIL_PIXELS))
            small.save(buffer, "JPEG", quality=75, optimize=True)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return ""
    return "data:image/jpeg;base64," + b64encode(buffer.getvalue()).decode()


def short(text: str, longest: int) -> str:
    """Returns the text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def post_address(uri: str) -> str:
    """Converts at://did/app.bsky.feed.post/key to the URL of the post's page."""
    did, _, key = uri.removeprefix("at://").split("/", 2)
    return f"https://bsky.app/profile/{did}/post/{key}"
