"""The source of the property records of a county, town or state."""

import re
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from harvester.items.property import READ_FIELDS
from harvester.platforms import check_platform, get_parameters
from harvester.sites.part import Part
from harvester.sites.states import STATES, UsState
from harvester.validation import did_you_mean

PlatformName = Annotated[str, AfterValidator(check_platform)]
IGNORED = "ignored"
"""Value in `labels` for a known label without a field."""
_is_fips = re.compile(r"[0-9]{2}|[0-9]{5}|[0-9]{10}").fullmatch
_is_address = re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?").fullmatch
_acceptance = re.compile(r"accepted by \S.* on (\d{4}-\d{2}-\d{2})").fullmatch


class PropertyRecords(Part):
    """The table `[<id>.property]`. The id is `us-oh-franklin`: country, state, jurisdiction."""

    name: str = Field(min_length=1, max_length=100)
    """Common name, such as `Franklin County`."""
    fips: str
    """Census code of a state (2 digits), a county (5), or a town in New England (10: county subdivision)."""
    platform: PlatformName
    """Software that publishes the records. It determines the spider."""
    base_url: str = Field(max_length=500)
    """First page of the platform, as a person opens it; for a layer or dataset, its address."""
    parameters: dict[str, str | int] = Field(default_factory=dict)
    """Further parameters of the platform, such as `parcel_id_field`; see docs/counties.md."""
    disclaimer: str = ""
    """`accepted by NAME on 2026-01-31`: the person who has read and accepted the site's terms. Without it no agreement
    is sent."""
    bulk_download: str = Field("", max_length=500)
    """Address of a file with all records of the jurisdiction, which is better than a request for each."""
    check: dict[str, str | int | float] = Field(default_factory=dict)
    """A known `parcel`, and expected fields for its records, which `harvester sites check` compares."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the site that harvester does not know: `"Site Loc." = "situs_address"`, or with the title of the
    section, `"Parcel: Loc." = "situs_address"`. The value `"ignored"` skips a label."""
    checked: date | None = None
    """Day when a known parcel was fetched here and was as expected. None if the site was never checked."""
    changed: date | None = None
    """Day of an intended change of the site. Earlier results of control pages are dropped."""
    notes: str = Field("", max_length=500)

    @field_validator("fips", mode="before")
    @classmethod
    def _census_code(cls, value: object) -> object:
        if not isinstance(value, str) or not _is_fips(value):
            raise ValueError(
                f"{value!r} is no census code; write in quotes the 2 digits of a state, the 5 of a county, or the 10 "
                "of a county subdivision"
            )
        if value[:2] not in STATES:
            raise ValueError(f"{value!r} is no census code: no state has the code {value[:2]}")
        return value

    @field_validator("base_url", "bulk_download")
    @classmethod
    def _address(cls, value: str) -> str:
        if not _is_address(value):
            raise ValueError(f"{value!r} is no address; give one like 'https://property.example.gov/'")
        return value

    @field_validator("parameters")
    @classmethod
    def _known(cls, value: dict[str, str | int], info: ValidationInfo) -> dict[str, str | int]:
        platform: str | None = info.data.get("platform")
        known = get_parameters(platform) if platform else tuple(value)
        for name in value:
            if name not in known:
                there_are = f"; there are {', '.join(known)}" if known else "; it takes none"
                raise ValueError(f"{platform} has no parameter {name!r}{did_you_mean(name, known) or there_are}")
        return value

    @field_validator("check")
    @classmethod
    def _names_a_parcel(cls, value: dict[str, str | int | float]) -> dict[str, str | int | float]:
        parcel = value.get("parcel", "")
        if value and not (isinstance(parcel, str) and parcel.strip()):
            raise ValueError("name a known parcel, in quotes: { parcel = '007', situs_address = '1 MAIN ST' }")
        return value

    @field_validator("labels")
    @classmethod
    def _known_fields(cls, value: dict[str, str]) -> dict[str, str]:
        for label, field in value.items():
            if field not in READ_FIELDS and field != IGNORED:
                near = did_you_mean(field, READ_FIELDS) or "; write the name of a field of a record, or 'ignored'"
                raise ValueError(f"{label!r} cannot mean {field!r}{near}")
        return value

    @field_validator("disclaimer")
    @classmethod
    def _who_and_when(cls, value: str) -> str:
        accepted = _acceptance(value)
        if value and not accepted:
            raise ValueError(f"{value!r} names no one, or no day; write it as 'accepted by NAME on 2026-01-31'")
        if accepted:
            date.fromisoformat(accepted[1])
        return value

    @property
    def state(self) -> UsState:
        """The state of the jurisdiction."""
        return STATES[self.fips[:2]]
