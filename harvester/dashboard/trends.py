"""The picture of hashtags and trends: rank and volume over time, on a self-contained HTML page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from pymongo.database import Database
from pymongo.errors import PyMongoError

from harvester.config import Config
from harvester.dashboard.report import short
from harvester.exceptions import StorageError, UsageError
from harvester.items.trend import Trend, normal_tag
from harvester.stores.mongodb import connect_sync, unavailable
from harvester.stores.private_files import make_closed

WIDTH, HEIGHT = 1000.0, 220.0
"""Width and height of a drawing, in its units."""
MOST_LINES = 8
"""Maximum number of lines in a drawing, because only eight colours are easy to tell apart."""
MOST_LOOKS = 200
"""Maximum number of visits to draw; of more, an even selection."""
MOST_CHARTS = 60
_LONGEST_NAME = 60
"""Maximum number of characters of a name."""
Document = dict[str, Any]


@dataclass(frozen=True)
class TrendSelection:
    """The trends to draw. Empty fields select all; empty `tags` select the highest ranked tags."""

    tags: Sequence[str] = ()
    source: str = ""
    region: str = ""
    days: int = 30

    def query(self, now: datetime) -> Document:
        """Returns the query for the collection."""
        chosen: Document = {"looked_at": {"$gte": now - timedelta(days=self.days)}}
        chosen |= {name: value for name, value in (("source", self.source), ("region", self.region)) if value}
        return chosen | ({"tag": {"$in": [normal_tag(tag) for tag in self.tags]}} if self.tags else {})


@dataclass
class TrendLine:
    """A tag over time."""

    name: str
    ranks: dict[datetime, int] = field(default_factory=dict)
    volumes: dict[datetime, int] = field(default_factory=dict)

    @property
    def last(self) -> datetime:
        """Returns the time of the last visit that saw the tag."""
        return max((*self.ranks, *self.volumes))


@dataclass(frozen=True)
class Chart:
    """The trends of a source for a region over a period, visit by visit."""

    source: str
    region: str
    period: str
    looks: list[datetime]
    """Times of the drawn visits, the oldest first."""
    lines: list[TrendLine]
    tags: int
    """Number of all tags that the source named."""

    def x(self, at: datetime) -> float:
        span = (self.looks[-1] - self.looks[0]).total_seconds()
        return round((at - self.looks[0]).total_seconds() / span * WIDTH, 1) if span else WIDTH / 2

    @property
    def most_rank(self) -> int:
        return max((rank for line in self.lines for rank in line.ranks.values()), default=0)

    @property
    def most_volume(self) -> int:
        return max((volume for line in self.lines for volume in line.volumes.values()), default=0)

    def rank_paths(self) -> list[str]:
        """Returns the SVG path of the ranks for each line: rank 1 is at the top."""
        most = max(self.most_rank - 1, 1)
        return [self._path({at: (rank - 1) / most for at, rank in line.ranks.items()}) for line in self.lines]

    def volume_paths(self) -> list[str]:
        """Returns the SVG path of the volumes for each line: 0 is at the bottom."""
        most = max(self.most_volume, 1)
        return [self._path({at: 1 - volume / most for at, volume in line.volumes.items()}) for line in self.lines]

    def _path(self, heights: Mapping[datetime, float]) -> str:
        """Returns an SVG path. It breaks at visits without the tag; a single point is a short stroke."""
        parts, was_there = [], False
        for at in self.looks:
            if at in heights:
                y = round(4 + heights[at] * (HEIGHT - 8), 1)
                parts.append(f"L{self.x(at)} {y}" if was_there else f"M{self.x(at)} {y}h.1")
            was_there = at in heights
        return "".join(parts)


def write_trends(config: Config, wanted: TrendSelection, out: Path | None = None) -> Path:
    """Writes the page and returns its path.

    Raises UsageError when there is nothing to show, ServiceError when MongoDB is unreachable, StorageError when the
    file cannot be written.
    """
    now = datetime.now(UTC)
    try:
        database = connect_sync(config)
        with database.client:
            charts = gather(database, wanted, now)
    except PyMongoError as error:
        raise unavailable(error) from None
    if not charts:
        raise UsageError(
            f"There are no trends like that of the last {wanted.days} days in the database {config.database}."
            " `harvester crawl hashtags` harvests some."
        )
    path = out or config.data_dir / "reports" / "hashtags.html"
    try:
        make_closed(path.parent)
        path.write_text(render(charts, wanted, now), "utf-8")
    except OSError as error:
        raise StorageError(f"The report cannot be written to {path}: {error.strerror}") from None
    return path


def gather(database: Database[Document], wanted: TrendSelection, now: datetime) -> list[Chart]:
    """Returns a chart for each source, region and period. The result is bounded, however much data there is."""
    trends, query = database[Trend.COLLECTION], wanted.query(now)
    alike = {name: f"${name}" for name in ("source", "region", "period")}
    groups = trends.aggregate([{"$match": query}, {"$group": {"_id": alike, "looks": {"$addToSet": "$looked_at"}}}])
    found = sorted(((row["_id"], sorted(row["looks"])) for row in groups), key=lambda each: [*each[0].values()])
    return [_chart(trends, query | of, looks) for of, looks in found[:MOST_CHARTS]]


def _chart(trends: Any, query: Document, looks: Sequence[datetime]) -> Chart:
    chosen = [
        looks[index * (len(looks) - 1) // max(1, min(MOST_LOOKS, len(looks)) - 1)]
        for index in range(min(MOST_LOOKS, len(looks)))
    ]
    ranking = [
        {"$match": query},
        {"$sort": {"looked_at": -1}},
        {
            "$group": {
                "_id": "$tag",
                "best": {"$min": "$rank"},
                "last": {"$first": "$looked_at"},
                "now": {"$first": "$rank"},
                "most": {"$max": "$volume"},
            }
        },
        {"$sort": {"last": -1, "now": 1, "best": 1, "most": -1, "_id": 1}},
    ]
    rows = list(trends.aggregate([*ranking, {"$limit": MOST_LINES}], allowDiskUse=True))
    lines = {row["_id"]: TrendLine("") for row in rows}
    wanted = query | {"tag": {"$in": list(lines)}, "looked_at": {"$in": chosen}}
    for row in trends.find(wanted, {"tag": 1, "name": 1, "rank": 1, "volume": 1, "looked_at": 1}).sort("looked_at"):
        line = lines[row["tag"]]
        line.name = short(row["name"], _LONGEST_NAME)
        if "rank" in row:
            line.ranks[row["looked_at"]] = row["rank"]
        if "volume" in row:
            line.volumes[row["looked_at"]] = row["volume"]
    shown = [line for line in lines.values() if line.name]
    tags = len(trends.distinct("tag", query)) if len(rows) == MOST_LINES else len(rows)
    return Chart(query["source"], query["region"], query["period"], list(chosen), shown, tags)


def render(charts: Sequence[Chart], wanted: TrendSelection, made: datetime) -> str:
    """Returns the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"grouped": "{:,}".format, "when": "{:%d %B %Y, %H:%M} UTC".format}
    template = environment.from_string(files(__package__).joinpath("trends.html").read_text("utf-8"))
    return template.render(charts=charts, wanted=wanted, made=made, size=(WIDTH, HEIGHT))
