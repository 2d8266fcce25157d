"""Pictures when a crawl ends before its time: killed, interrupted, or without room on the disk."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harvester.config import Config
from harvester.stores.objects import on_disk
from tests.images.conftest import Run
from tests.images.samples import GOOD, encoded, noise
from tests.images.server import Site
from tests.images.test_crawl import ALICE, post, wait_until, whole_jpegs

Crawl = Callable[..., Run]


@pytest.mark.parametrize("stored", [1, 50])
def test_a_kill_leaves_only_whole_pictures_and_the_next_run_fetches_the_rest(
    crawl: Crawl, site: Site, config: Config, stored: int
) -> None:
    images = config.data_dir / "images"
    site.bodies["large.jpg"] = encoded(noise((700, 700)), "JPEG", quality=95)
    posts = [post(f"bafy{n}", f"{site.origin}/large.jpg?{n}") for n in range(120)]
    killed = crawl([posts])
    wait_until(lambda: len(list(images.rglob("*.jpg"))) >= stored)
    killed.end(signal.SIGKILL)
    left = whole_jpegs(images)
    site.hits.clear()

    run = crawl([posts]).end()

    assert stored <= len(left) < 120
    assert run.images == {"stored": 120 - len(left), "unchanged": len(left)}
    assert whole_jpegs(images) == {f"{on_disk(ALICE)}/posts/bafy{n}_0.jpg" for n in range(120)}
    assert len(site.hits) == 1 + 120 - len(left)


def test_records_whose_pictures_were_not_fetched_before_ctrl_c_are_not_confirmed(
    crawl: Crawl, site: Site, config: Config
) -> None:
    posts = [post("bafy1", f"{site.origin}/plain.jpg")]
    posts += [post(f"bafyx{n}", f"{site.origin}/gated/plain.jpg?{n}") for n in range(40)]
    run = crawl([posts])
    wait_until(lambda: site.at_once >= 16)
    run.process.send_signal(signal.SIGINT)
    wait_until(lambda: "The crawl is ending" in run.log)
    site.open_gate.set()
    run.end()

    assert run.stats["finish_reason"] == "shutdown"
    assert run.records == []
    assert "log_count/ERROR" not in run.stats
    again = crawl([posts]).end()
    assert len(again.records) == len(whole_jpegs(config.data_dir / "images")) == 41


def test_a_disk_without_room_ends_the_run_and_confirms_no_record(crawl: Crawl, site: Site, config: Config) -> None:
    site.bodies["large.jpg"] = encoded(noise((300, 300)), "JPEG", quality=95)
    posts = [post(f"bafy{n}", f"{site.origin}/large.jpg?{n}") for n in range(40)]

    run = crawl([posts, posts[:5]], largest_file=16_384).end()

    assert run.stats["finish_reason"] == "storage_error"
    assert run.stats["harvester/exit_code"] == 4
    assert run.records == []
    assert f"{config.data_dir / 'images'}: File too large" in run.log
    assert [path for path in (config.data_dir / "images").rglob("*") if path.is_file()] == []


def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is_fetched(
    crawl: Crawl, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    run = crawl([[post("bafy1", f"{site.origin}/plain.jpg")]], {"HARVESTER_IMAGES_STORE": str(tmp_path / "file/x")})
    run.end()

    assert re.search(f"StorageError: .*{tmp_path / 'file/x'}: Not a directory", run.log)
    assert not site.hits


def test_a_store_of_another_kind_is_refused_before_anything_is_fetched(crawl: Crawl, site: Site) -> None:
    location = "gs://bucket/pictures"
    run = crawl([[post("bafy1", f"{site.origin}/plain.jpg")]], {"HARVESTER_IMAGES_STORE": location}).end()

    assert re.search(f"UsageError: .*'{location}'", run.log)
    assert not site.hits


def test_leftovers_of_killed_runs_go_and_those_of_running_ones_stay(crawl: Crawl, site: Site, config: Config) -> None:
    partial = config.data_dir / "images" / ".partial"
    partial.mkdir(parents=True)
    (partial / f"{ALICE}~old").write_bytes(GOOD["plain.jpg"][:100])
    os.utime(partial / f"{ALICE}~old", (0, 0))
    (partial / f"{ALICE}~new").write_bytes(GOOD["plain.jpg"][:100])

    crawl([[]]).end()

    assert [path.name for path in partial.iterdir()] == [f"{ALICE}~new"]
