"""The rules of scripts/lint.py refuse what they forbid, and let the rest pass."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.root import ROOT

LINT = ROOT / "scripts" / "lint.py"
FINE = '"""A module of the room."""\n\n\nclass One:\n    """A class of its own."""\n'


def lint(folder: Path, *arguments: str) -> int:
    return subprocess.run(
        [sys.executable, str(LINT), *arguments], cwd=folder, check=False, capture_output=True
    ).returncode


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("class Other: ...\n", 0),
        ("class Twin: ...\n", 1),
        ("class _Twin: ...\n", 0),
        ("def f():\n    'Whether it passes.'\n", 1),
        ("a = 1\n'Of a site.'\n", 1),
        ("def f():\n    'Returns True if it passes.'\n", 0),
        ("A = (Outcome.OK, Outcome.EMPTY)\n", 1),
        ("A = {Outcome.OK: 1, Outcome.EMPTY: 2}\n", 1),
        ("A = f(Outcome.OK, Outcome.EMPTY)\n", 0),
    ],
)
def test_a_module_that_breaks_a_rule_is_refused(text: str, code: int, tmp_path: Path) -> None:
    room = tmp_path / "harvester" / "room"
    room.mkdir(parents=True)
    (room / "twin.py").write_text(FINE + "\n\nclass Twin: ...\n")
    (room / "given.py").write_text(text)
    assert lint(tmp_path) == code


@pytest.mark.parametrize(
    ("use", "code"),
    [
        ("request.meta[KEY] = 1", 0),
        ("request.meta.setdefault(KEY, 1)", 0),
        ("NAMES = (KEY,)", 0),
        ("request.meta.get(KEY)", 1),
        ("KEY in request.meta", 1),
    ],
)
def test_a_key_of_meta_says_which_rooms_write_and_read_it(use: str, code: int, tmp_path: Path) -> None:
    for name, text in (("writes", "from harvester.meta import KEY\n" + use), ("reads", "")):
        (tmp_path / "harvester" / name).mkdir(parents=True)
        (tmp_path / "harvester" / name / "given.py").write_text(text)
    reading = "from harvester.meta import KEY\nrequest.meta.pop(KEY)\n"
    (tmp_path / "harvester" / "reads" / "given.py").write_text(reading)
    if "= 1" not in use and "setdefault" not in use:
        (tmp_path / "harvester" / "writes" / "other.py").write_text(
            "from harvester.meta import KEY\nrequest.meta[KEY] = 1\n"
        )
    meta = 'KEY = "key"\n"""A number. Written by: writes. Read by: reads."""\nEND = ""\n'
    (tmp_path / "harvester" / "meta.py").write_text(meta)
    assert lint(tmp_path) == code


@pytest.mark.parametrize(
    ("subject", "code"),
    [
        ("frontier: requests wait", 0),
        ("Requests wait", 1),
        ("frontier: " + "x" * 63, 1),
        ("frontier: " + "x" * 62, 0),
        ('Revert "frontier: x"', 0),
    ],
)
def test_a_subject_names_its_room_and_is_short(subject: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "message").write_text(f"{subject}\n\nA body may be of any length{'.' * 100}\n")
    assert lint(tmp_path, "--commit-message", "message") == code
