"""What a page does with a file that was sent to it."""

import asyncio
import gzip
import tempfile
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harvester.control.pages import submit
from harvester.control.pages.submit import _decompress, _Form
from tests.numbers import numbers_of


@pytest.fixture
def form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of a page that nobody has opened, and whose temporary files lie in a folder of the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: Any = _Form.__new__(_Form)
    made._upload, made._file = None, SimpleNamespace(text="", is_deleted=False)
    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the page complains of."""
    complaints: list[str] = []
    monkeypatch.setattr(submit, "complain", complaints.append)
    return complaints


def sent(name: str, save: Any) -> Any:
    return SimpleNamespace(file=SimpleNamespace(name=name, save=save, size=lambda: 3))


def texts(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


async def test_nothing_of_a_file_is_submitted_before_it_is_whole(form: Any, tmp_path: Path) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def save(path: Path) -> None:
        await asyncio.to_thread(path.write_bytes, b"1\n")
        begun.set()
        await goes_on.wait()
        await asyncio.to_thread(path.write_bytes, b"1\n2\n")

    keeping = asyncio.create_task(form._keep(sent("parcels.txt", save)))
    await begun.wait()
    assert (form._upload, "parcels.txt" in form._file.text) == (None, True)
    goes_on.set()
    await keeping
    assert texts(tmp_path) == [b"1\n2\n"]
    assert (form._upload.parent, "parcels.txt" in form._file.text) == (tmp_path, True)
    assert numbers_of(form._file.text) == [3]
    form._forget()
    assert texts(tmp_path) == []


async def test_of_a_file_whose_page_is_left_meanwhile_nothing_stays(form: Any, tmp_path: Path, said: list[str]) -> None:
    async def save(path: Path) -> None:
        await asyncio.to_thread(path.write_bytes, b"1\n")
        form._file.is_deleted = True
        form._forget()  # as the page does that is left

    await form._keep(sent("parcels.txt", save))
    assert (form._upload, texts(tmp_path), said) == (None, [], [])


async def test_a_file_for_which_there_is_no_room_is_said_to_have_none(
    form: Any, tmp_path: Path, said: list[str]
) -> None:
    async def save(path: Path) -> None:
        raise OSError(ENOSPC, "No space left on device")

    await form._keep(sent("parcels.txt", save))
    assert ("parcels.txt" in said[0], "No space left on device" in said[0]) == (True, True)
    assert (form._upload, form._file.text, texts(tmp_path)) == (None, "", [])


def test_what_is_decompressed_is_closed_to_others_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "sent"
    path.write_bytes(gzip.compress(b"1\n2\n"))
    assert _decompress(path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"1\n2\n", 0o600)
    path.write_bytes(b"no gzip")
    assert not _decompress(path)
    assert [each.name for each in tmp_path.iterdir()] == ["sent"]
