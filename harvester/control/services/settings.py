"""The effective settings and their sources. Secrets are masked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from harvester.config import Config, given_by
from harvester.formatting import without_userinfo
from harvester.jobs.service import JobService
from harvester.masking import MASKED, mask

Source = Literal["environment", ".env", "program", "default"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of this process."""

    name: str
    """The name of the environment variable."""
    value: str
    """Empty: not set. A secret shows as MASKED, and a URL shows neither user nor password."""
    secret: bool
    source: Source
    """program: the code that started this process has set it, as tests do."""
    default: str


class Settings:
    """The settings of this process. Workers on other machines may have others."""

    def __init__(self, service: JobService) -> None:
        self._config = service.config

    def all(self) -> list[Setting]:
        """Returns all settings in the order of docs/configuration."""
        return [_setting(self._config, field) for field in Config.model_fields]


def _setting(config: Config, field: str) -> Setting:
    name, source = given_by(field)
    default = Config.model_fields[field].get_default(call_default_factory=True, validated_data={})
    value = getattr(config, field)
    is_secret = "SecretStr" in str(Config.model_fields[field].annotation)
    unsaid: Source = "default" if value == default else "program"
    return Setting(name, _shown(value), is_secret, source or unsaid, _shown(default))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return MASKED if value.get_secret_value() else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value.absolute()) if isinstance(value, Path) and not value.is_absolute() else str(value)
    return mask(without_userinfo(text))
