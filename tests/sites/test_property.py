"""A jurisdiction is a site with a table `property`; what contradicts itself there is refused, with what is meant."""

from pathlib import Path
from typing import get_args

import pytest

from harvester.exceptions import UsageError
from harvester.platforms import PARAMETERS, Platform
from harvester.sites import Site, load_sites

ROSS = """
[us-oh-ross.property]
name = "Ross County"
fips = "39141"
platform = "arcgis"
base_url = "https://gis.ross.example:8443/server/rest/services/Parcels/MapServer/0"
"""


def read(entry: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The one site of the entry."""
    (folder / "oh.toml").write_text(entry, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(folder))
    return load_sites().named("us-oh-ross")


def test_a_jurisdiction_on_a_host_of_many_has_no_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ross = read(ROSS + '[many]\nhosts = ["gis.ross.example"]', tmp_path, monkeypatch)
    assert ross.property is not None
    assert (ross.hosts, ross.property.state.name, ross.property.checked) == ((), "Ohio", None)
    assert load_sites().of(ross.property.base_url).name == "many"


@pytest.mark.parametrize("hosts", ["gis.ross.example", "*.ross.example", "GIS.ross.example:8443"])
def test_the_host_of_the_address_is_among_the_hosts(
    hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ross = read(f'[us-oh-ross]\nhosts = "{hosts}"{ROSS}', tmp_path, monkeypatch)
    assert ross.property is not None
    assert load_sites().of(ross.property.base_url) == ross


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("[us-oh-ross.p", 'us-oh-ross.hosts = ["gis.ross.example:443"]\n[us-oh-ross.p'),
            "us-oh-ross: base_url .*gis.ross.example:8443.*gis.ross.example:443",
        ),
        (('"39141"', "39141"), "us-oh-ross.property.fips: 39141 "),
        (('"39141"', '"3914"'), "us-oh-ross.property.fips: '3914' "),
        (('"39141"', '"99141"'), "us-oh-ross.property.fips: '99141' .*\\b99\\b"),
        (('"arcgis"', '"arcgiss"'), "us-oh-ross.property.platform: 'arcgiss' .*arcgis\\b"),
        (("https://", "gis."), "us-oh-ross.property.base_url: 'gis.gis.ross"),
        (("gis.ross", "ann:secret@gis.ross"), "us-oh-ross.property.base_url: "),
        (("base_url", "base_ur"), "us-oh-ross.property.base_ur: .*base_url"),
        (
            ("name", "parameters = { parcel_id = 'PIN' }\nname"),
            "us-oh-ross.property.parameters: .*'parcel_id'.*parcel_id_field",
        ),
        (
            ("name", "parameters = { cid = 1 }\nname"),
            "us-oh-ross.property.parameters: .*'cid'.*parcel_id_field, where",
        ),
        (
            ('"arcgis"', '"vgsi"\nparameters = { town = "ross" }'),
            "us-oh-ross.property.parameters: vgsi .*'town'",
        ),
        (
            ("name", "disclaimer = 'yes'\nname"),
            "us-oh-ross.property.disclaimer: 'yes' ",
        ),
        (
            ("name", "disclaimer = 'accepted by Ann on 2026-02-30'\nname"),
            "us-oh-ross.property.disclaimer: day ",
        ),
        (("name", "checked = 'once'\nname"), "us-oh-ross.property.checked: "),
        (("name", "check = { parcel = 7 }\nname"), "us-oh-ross.property.check: "),
        (("name", "check = { acres = 1.5 }\nname"), "us-oh-ross.property.check: "),
    ],
)
def test_property_records_that_cannot_be_used_are_named(
    change: tuple[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        read(ROSS.replace(*change, 1), tmp_path, monkeypatch)
    assert "oh.toml" in str(raised.value)


def test_every_platform_says_what_it_may_be_told() -> None:
    assert sorted(PARAMETERS) == sorted(get_args(Platform))
