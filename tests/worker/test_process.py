"""What a worker process says is read to its end."""

import io
import sys
from types import SimpleNamespace

import pytest

from harvester.worker.process import WorkerProcess
from harvester.worker.reporter import MARK, Report


def test_what_a_worker_reports_is_read_though_nothing_can_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = WorkerProcess(1, 30, None)
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=full))
        worker._read_reports(io.BytesIO(b"printed by a spider\n" + MARK + b'{"pages": 7}\n'))
        monkeypatch.undo()
    assert worker.report == Report(pages=7)
