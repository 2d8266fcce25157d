"""The arguments of the spiders of property records."""

import os
import re
from collections.abc import Iterator
from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from harvester.exceptions import UsageError
from harvester.items import Found
from harvester.jobs.inputs import digest_of, items_of_file
from harvester.spiders.base import SpiderArguments, YesOrNo

PARCEL = "parcel"
"""Kind of an item: a parcel, whose key is its number."""
_scientific = re.compile(r"\d+([.,]\d+)?[eE][+-]\d+").fullmatch
_fraction = re.compile(r"\d{4,}[.,]0+").fullmatch
_day = re.compile(
    r"\d{1,2}-(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-\d{2,4})?"
    r"|(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-\d\d"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?"
).fullmatch
_marked = re.compile(r"(=\"?|')(?P<number>[^\"']*)\"?").fullmatch
_in_thousands = re.compile(r"\d{1,3}(,\d{3})+").fullmatch
_nothing = re.compile(r"nan|none|null|n/a|<na>|true|false", re.IGNORECASE).fullmatch
_cell_error = re.compile(r"#+|#(REF!|N/A|NAME\?|VALUE!|NUM!|NULL!|DIV/0!)", re.IGNORECASE).fullmatch
_REMEDY = (
    "export it once more with that column as text (in Excel: Data, From Text/CSV, and the column's type Text), since"
    " the digits are lost here"
)


def mangled(parcel_id: str) -> str:
    """Explains how a spreadsheet has damaged a parcel's number, and the remedy; empty when the number looks intact."""
    if _scientific(parcel_id):
        return f"{parcel_id!r} is a number that a spreadsheet has shortened: {_REMEDY}"
    if _fraction(parcel_id):
        return (
            f"{parcel_id!r} was made a number with a fraction, which takes leading zeros off: read the column as text"
        )
    if _day(parcel_id):
        return f"{parcel_id!r} is a date that a spreadsheet has made of a parcel's number: {_REMEDY}"
    if _cell_error(parcel_id):
        return f"{parcel_id!r} is the error of a spreadsheet's cell: mend the cell"
    if marked := _marked(parcel_id):
        return f"{parcel_id!r} has the mark with which a spreadsheet keeps text as it is: write {marked['number']!r}"
    if _in_thousands(parcel_id):
        return f"{parcel_id!r} has commas that a spreadsheet shows in large numbers: {_REMEDY}"
    if _nothing(parcel_id):
        return f"{parcel_id!r} is what a program writes into an empty cell: take the line out, or mend the cell"
    return ""


class PropertyArguments(SpiderArguments):
    """Arguments of every spider of property records."""

    site: str = Field(description="whose records: the name of an entry of the registry, like us-oh-franklin")
    parcels: str = Field(
        "",
        description="parcels' numbers, comma-separated; or @FILE: CSV with a header, JSON lines, or one a line",
    )
    column: str = Field(
        "", description="the file's column with the numbers; none: `parcel_id`, `key`, or the only one there is"
    )
    all: YesOrNo = Field(
        False, description="whether all parcels are harvested, where the platform lists them: yes or no"
    )

    _digest: str = PrivateAttr("")

    @model_validator(mode="after")
    def _together(self) -> "PropertyArguments":
        if self.parcels and self.all:
            raise ValueError("give parcels, or all=yes, and not both")
        if self.column and not self._is_file:
            raise ValueError("column: it is of a file, parcels=@FILE")
        bad = [] if self._is_file else list(filter(None, map(mangled, self._inline)))
        if bad:
            raise ValueError("parcels: " + "; ".join(bad))
        return self

    @property
    def says_what(self) -> bool:
        """True if the arguments name parcels, a search, or all parcels."""
        return bool(self.parcels or self.all)

    def read_parcels(self) -> Iterator[Found]:
        """Yields the parcels. Raises UsageError for a file that cannot be read or used, with the bad lines."""
        if self._is_file:
            yield from self._of_file()
        else:
            yield from (Found(PARCEL, parcel_id, depth=0) for parcel_id in self._inline)

    def check_parcels(self) -> None:
        """Reads all parcels. Raises UsageError for a bad one, or when the file has none."""
        if self.parcels and not sum(1 for _ in self.read_parcels()):
            raise UsageError(f"-a parcels={self.parcels}: there is no parcel's number in it.")

    def identity(self) -> dict[str, Any]:
        """Returns the values that identify a harvest: a digest of the content stands for a file."""
        if self._is_file and not self._digest:
            self._digest = digest_of(self._path)
        return {"site": self.site, "all": self.all, "parcels": self._digest or self.parcels, "column": self.column}

    def kept(self) -> dict[str, Any]:
        """Leaves out the parcels: they are items of the job, and other machines may not have the file."""
        return self.model_dump(mode="json", exclude={"parcels", "column"})

    @property
    def _is_file(self) -> bool:
        return self.parcels.startswith("@")

    @property
    def _path(self) -> str:
        return os.path.expanduser(self.parcels[1:])

    @property
    def _inline(self) -> list[str]:
        return list(filter(None, map(str.strip, self.parcels.split(","))))

    def _of_file(self) -> Iterator[Found]:
        usual = ("parcel_id", "key")
        return items_of_file(self._path, "parcels", PARCEL, self.column, usual, lambda found: mangled(found.key))
