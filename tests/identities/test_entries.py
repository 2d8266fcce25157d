"""What an entry may say of identities."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.identities.credentials import credentials_of
from harvester.sites import Registry
from harvester.sites.identities import Identities

STEPS = [{"open": "https://a.example/"}, {"open": "https://a.example/?word={password}"}]
BROWSER: dict[str, Any] = {"steps": STEPS, "success": {"cookie": "auth"}}
FORM: dict[str, Any] = {"page": "https://a.example/", "fields": {}, "success": {"cookie": "auth"}}


def test_site_without_an_entry_has_no_identities() -> None:
    assert Registry().of("https://example.org/").identities.kind is None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "form", "form": FORM}, "credentials"),
        ({"kind": "form", "credentials": "A", "form": FORM | {"css": "form["}}, "CSS"),
        ({"kind": "form", "credentials": "COUNTY"}, "`form`"),
        ({"kind": "agree", "form": FORM, "credentials": "COUNTY"}, "credentials"),
        ({"kind": "anonymous", "form": FORM}, "`form`"),
        ({"form": FORM}, "`kind`"),
        ({"kind": "agree", "form": FORM | {"success": {}}}, "`success`"),
        ({"kind": "form", "form": FORM, "credentials": "county"}, "county"),
        ({"kind": "form", "form": FORM, "credentials": ["A", "A"]}, "twice"),
        ({"kind": "anonymous", "expired_url": "("}, "regular expression"),
        ({"kind": "agree", "form": FORM | {"success": {"text": "["}}}, "regular expression"),
        ({"kind": "agree", "form": FORM | {"page": "/Login.aspx"}}, "page"),
        ({"kind": "anonymous", "password": "x"}, "password"),
        ({"kind": "browser", "credentials": "A", "browser": BROWSER}, "step 2: .*`value`"),
    ],
)
def test_entry_that_cannot_work_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Identities.model_validate(table)


def test_a_file_of_credentials_that_is_no_text_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "credentials.env"
    file.touch(0o600)
    file.write_bytes(b"HARVESTER_SESSION_OAK_USER=ann\nHARVESTER_SESSION_OAK_PASSWORD=w\xf6rd\n")
    with pytest.raises(UsageError, match=r"credentials\.env.*UTF-8"):
        credentials_of("OAK", Config(state_dir=tmp_path))


def test_each_name_of_credentials_is_an_identity() -> None:
    assert Identities(kind="form", form=FORM, credentials="COUNTY").names == ("COUNTY",)
    assert Identities(kind="anonymous", count=3).names == ("1", "2", "3")
