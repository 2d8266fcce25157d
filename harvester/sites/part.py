"""The base class for the tables in a site's entry."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A table in a site's entry. It refuses unknown keys, and inf, which TOML allows."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
