"""What a page does with a compressed file that was sent to it."""

import gzip
from pathlib import Path

from harvester.control.pages.submit import _decompress


def test_what_is_decompressed_is_closed_to_others_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "sent"
    path.write_bytes(gzip.compress(b"1\n2\n"))
    assert _decompress(path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"1\n2\n", 0o600)
    path.write_bytes(b"no gzip")
    assert not _decompress(path)
    assert [each.name for each in tmp_path.iterdir()] == ["sent"]
