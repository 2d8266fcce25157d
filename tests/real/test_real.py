"""A folder of real pages is read as the spiders read them; a field that is wrong is an exit code."""

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from harvester.platforms import Platform
from harvester.spiders.counties.saved import PLATFORMS
from tests.counties.saved_pages import PAGES
from tests.real.__main__ import main

ADDRESS = "https://www.devnetwedge.example/parcel/view/0620328021/2023"


def run(folder: Path, page: str, **expected: Any) -> int:
    """The exit code for one page of devnet, of which this is expected."""
    of_platform = folder / "devnet"
    of_platform.mkdir()
    shutil.copy(PAGES / page, of_platform / "us-il-page.html")
    (of_platform / "us-il-page.expected.json").write_text(json.dumps({"url": ADDRESS, **expected}))
    return main(str(folder))


@pytest.mark.parametrize(
    ("page", "expected", "code"),
    [
        ("devnet_bordered.html", {"parcel_id": "06-20-328-021", "zoning": None}, 0),
        ("devnet_bordered.html", {"parcel_id": "06-20-328-021", "zoning": "R1"}, 0),  # missing
        ("devnet_bordered.html", {"parcel_id": "06-20-328-022"}, 1),
        ("devnet_bordered.html", {"sales": [], "complete": True}, 1),
        ("devnet_bordered.html", {"refused": "challenge"}, 1),
        ("devnet_layout_changed.html", {"refused": "where it is"}, 0),
        ("devnet_layout_changed.html", {"refused": "challenge"}, 1),
        ("devnet_layout_changed.html", {"parcel_id": "06-20-328-021"}, 1),
    ],
)
def test_a_wrong_field_or_fate_is_an_exit_code(page: str, expected: dict[str, Any], code: int, tmp_path: Path) -> None:
    assert run(tmp_path, page, **expected) == code


def test_a_folder_without_pages_is_told(tmp_path: Path) -> None:
    assert main(str(tmp_path)) == 2


def test_saved_pages_of_every_platform_can_be_read() -> None:
    assert set(get_args(Platform)) == PLATFORMS
