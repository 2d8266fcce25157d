"""`harvester endpoints`: how an endpoint stands, in one word; and what cannot be meant."""

import sys
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from harvester.cli import main
from harvester.jobs.documents import Item, ItemState
from harvester.jobs.recurring import Standing, standing_of
from harvester.recheck import Look

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEW = Item(id="j:endpoint:a", job="j", kind="endpoint", key="a", created_at=NOW, updated_at=NOW)
LOOKED = replace(NEW, looks=(Look(NOW.timestamp(), 1),))


@pytest.mark.parametrize(
    ("item", "standing"),
    [
        (NEW, Standing.WAITING),
        (replace(LOOKED, state=ItemState.ACTIVE), Standing.RUNNING),
        (LOOKED, Standing.SUCCESS),
        (replace(LOOKED, failures=1), Standing.FAILED),
        (replace(LOOKED, failures=10, state=ItemState.FAILED), Standing.PERMANENTLY_FAILED),
        (replace(LOOKED, state=ItemState.SKIPPED), Standing.REMOVED),
    ],
)
def test_how_an_endpoint_stands_is_one_word(item: Item, standing: Standing) -> None:
    assert standing_of(item) is standing


BAD = [
    (["restart"], "--all"),
    (["restart", "prices", "--all"], "--all"),
    (["list", "--standing", "failed"], "--standing: 'failed'"),
]
"""Words of the command, and what is said of them."""


@pytest.mark.parametrize(("words", "said"), BAD)
def test_what_cannot_be_meant_is_refused(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["harvester", "endpoints", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
