"""Pictures in a real crawl."""

import hashlib
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from pymongo.database import Database

from harvester.config import Config
from harvester.sandbox.pdf import pdf
from harvester.stores.objects import on_disk
from tests.images.conftest import Run
from tests.images.samples import GOOD, REFUSED
from tests.images.server import Site

ALICE = "did:plc:alice"
BOB = "did:web:bob.example"
CAROL = "did:plc:carol"
Crawl = Callable[..., Run]


def post(cid: str, *images: str, did: str = ALICE) -> dict[str, Any]:
    return {"did": did, "cid": cid, "rkey": cid, "images": images}


def cid_of(name: str) -> str:
    return "bafy" + hashlib.sha256(name.encode()).hexdigest()[:20]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def whole_jpegs(folder: Path) -> set[str]:
    """Paths of all files below the folder; each must be a JPEG that decodes to its end."""
    found = set()
    for path in folder.rglob("*.jpg"):
        with Image.open(BytesIO(path.read_bytes()), formats=["JPEG"]) as image:
            image.load()
        found.add(path.relative_to(folder).as_posix())
    return found


def test_every_picture_of_a_batch_is_stored_or_counted_with_its_reason(
    crawl: Crawl, site: Site, config: Config
) -> None:
    failing = {name: reason for name, (_, reason) in REFUSED.items()} | {
        "status/404/a": "not_found",
        "status/403/a": "blocked",
        "status/500/a": "server_error",
        "endless/a": "too_large",
        "huge.jpg": "too_large",
        "moved/absent": "not_found",
    }
    site.bodies["huge.jpg"] = GOOD["plain.jpg"] + bytes(2 << 20)
    good = [*GOOD, "moved/plain.jpg"]
    posts = [post(cid_of(name), f"{site.origin}/{name}") for name in [*good, *failing]]
    posts.append(post("bafyftp", "ftp://127.0.0.1/a.jpg"))
    posts.append(post("bafynone"))

    run = crawl([posts]).end()

    paths = {record["cid"]: record.get("media_paths") for record in run.records}
    expected = {cid_of(name): {"0": f"{on_disk(ALICE)}/posts/{cid_of(name)}_0.jpg"} for name in good}
    assert paths == expected | dict.fromkeys([*map(cid_of, failing), "bafyftp", "bafynone"])
    assert whole_jpegs(config.data_dir / "images") == {path["0"] for path in expected.values()}
    failed = {name.split("/")[1]: n for name, n in run.images.items() if name.startswith("failed/")}
    reasons = [*failing.values(), "address_refused"]
    assert failed == {reason: reasons.count(reason) for reason in reasons}
    assert run.images["stored"] == len(good)
    assert run.stats["finish_reason"] == "finished"
    assert "log_count/ERROR" not in run.stats
    for reason in set(reasons):
        assert sum("WARNING: No picture" in line and f": {reason}" in line for line in run.log.splitlines()) == 1


def test_a_profile_has_avatar_and_banner_and_names_their_sources(crawl: Crawl, site: Site, config: Config) -> None:
    avatar, banner = f"{site.origin}/plain.jpg", f"{site.origin}/plain.png"

    run = crawl([[{"did": BOB, "avatar": avatar, "banner": banner}]]).end()

    assert run.records[0]["media_paths"] == {
        "avatar": f"{on_disk(BOB)}/pfp.jpg",
        "banner": f"{on_disk(BOB)}/banner.jpg",
    }
    assert run.records[0]["media_sources"] == {"avatar": avatar, "banner": banner}
    assert (config.data_dir / "images" / on_disk(BOB) / "pfp.jpg").read_bytes() == GOOD["plain.jpg"]


def test_the_same_picture_in_two_posts_is_fetched_once_and_stored_for_each(
    crawl: Crawl, site: Site, config: Config
) -> None:
    address = f"{site.origin}/gated/plain.jpg"

    run = crawl([[post("bafy1", address), post("bafy2", address, address)]])
    site.open_gate.set()
    run.end()

    assert site.hits["/gated/plain.jpg"] == 1
    assert len(whole_jpegs(config.data_dir / "images")) == 3


def test_a_second_crawl_fetches_only_what_is_new_or_has_changed(crawl: Crawl, site: Site, config: Config) -> None:
    alice = {"did": ALICE, "avatar": f"{site.origin}/plain.jpg", "banner": f"{site.origin}/plain.png"}
    bob = {"did": BOB, "avatar": f"{site.origin}/plain.jpg?bob", "banner": f"{site.origin}/plain.png?bob"}
    carol = {"did": CAROL, "avatar": f"{site.origin}/plain.jpg?carol", "banner": f"{site.origin}/plain.png?carol"}
    crawl([[alice, bob, carol, post("bafy1", f"{site.origin}/plain.webp")]]).end()
    site.hits.clear()
    alice["avatar"] = f"{site.origin}/alpha.png"
    lost = bob | {"banner": f"{site.origin}/absent.jpg"}
    del carol["banner"]
    later = [
        alice,
        lost,
        carol,
        post("bafy1", f"{site.origin}/plain.webp"),
        post("bafy2", f"{site.origin}/moving.gif"),
    ]

    run = crawl([later]).end()

    assert set(site.hits) == {"/page?0", "/alpha.png", "/absent.jpg", "/moving.gif"}
    assert run.images == {"stored": 2, "unchanged": 4, "failed/not_found": 1}
    records = {record["_id"]: record for record in run.records}
    assert records[ALICE]["media_sources"] == {"avatar": alice["avatar"], "banner": alice["banner"]}
    assert records[BOB]["media_paths"] == {"avatar": f"{on_disk(BOB)}/pfp.jpg", "banner": f"{on_disk(BOB)}/banner.jpg"}
    assert records[BOB]["media_sources"] == {"avatar": bob["avatar"], "banner": bob["banner"]}
    assert records[CAROL]["media_paths"] == {"avatar": f"{on_disk(CAROL)}/pfp.jpg"}, "she has taken her banner away"


def test_a_picture_that_was_deleted_from_disk_is_fetched_again(crawl: Crawl, site: Site, config: Config) -> None:
    batch = [{"did": ALICE, "avatar": f"{site.origin}/plain.jpg"}, post("bafy1", f"{site.origin}/plain.png")]
    crawl([batch]).end()
    stored = whole_jpegs(config.data_dir / "images")
    for path in stored:
        (config.data_dir / "images" / path).unlink()

    run = crawl([batch]).end()

    assert run.images == {"stored": 2}
    assert whole_jpegs(config.data_dir / "images") == stored


def test_a_bill_whose_file_an_older_version_named_otherwise_is_found_and_not_fetched_again(
    crawl: Crawl, site: Site, config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    site.bodies["bill.pdf"] = pdf(["Tax bill 2025"])
    bill = {"parcel": "0 12  A/4", "pdf": f"{site.origin}/bill.pdf"}
    (record,) = crawl([[bill]]).end().records
    path = record["media_paths"]["bill"]
    assert path == "us-mi-made-up/tax_bills/2025/0 12  A%2F4.pdf"
    old = path.replace(" ", "%20")
    images = config.data_dir / "images"
    (images / path).rename(images / old)
    mongodb["tax_bills"].update_one({}, {"$set": {"media_paths.bill": old}})

    run = crawl([[bill]]).end()

    assert run.pdfs == {"unchanged": 1}
    assert run.records[-1]["media_paths"] == {"bill": old}


def test_pictures_in_a_folder_of_an_older_version_are_found_and_not_fetched_again(
    crawl: Crawl, site: Site, config: Config
) -> None:
    batch = [{"did": ALICE, "avatar": f"{site.origin}/plain.jpg"}, post("bafy1", f"{site.origin}/plain.png")]
    crawl([batch]).end()
    images = config.data_dir / "images"
    (images / on_disk(ALICE)).rename(images / ALICE)

    run = crawl([batch]).end()

    assert run.images == {"unchanged": 2}
    stored = {path for record in run.records for path in record["media_paths"].values()}
    assert stored == whole_jpegs(images) == {f"{ALICE}/pfp.jpg", f"{ALICE}/posts/bafy1_0.jpg"}


def test_no_address_of_a_record_leads_out_of_its_accounts_folder(
    crawl: Crawl, site: Site, config: Config, tmp_path: Path
) -> None:
    address = f"{site.origin}/plain.jpg"
    bad = ["../../../escaped", "..", "a/b", "bafy\\b", "BAFY", "bafy\n", "b" * 300, "."]
    before = set(tmp_path.rglob("*.jpg"))

    run = crawl([[post(cid, address) | {"rkey": str(n)} for n, cid in enumerate(bad)]]).end()

    assert len(run.records) == len(bad)
    assert run.images == {"failed/bad_path": len(bad)}
    assert set(tmp_path.rglob("*.jpg")) == before
    assert not site.hits["/plain.jpg"]


def test_a_path_does_nothing_to_the_terminal_that_shows_the_log(crawl: Crawl, site: Site) -> None:
    odd = post("bafy\x1b[2J\nERROR: all is lost", f"{site.origin}/plain.jpg") | {"rkey": "1"}
    run = crawl([[odd]]).end()
    assert r"bad_path: did:plc:alice/posts/bafy\x1b[2J\nERROR: all is lost_0.jpg" in run.log
    assert "\x1b" not in run.log


def test_private_hosts_are_not_asked_for_pictures(crawl: Crawl, site: Site) -> None:
    port = site.server_address[1]
    run = crawl(
        [[post("bafy1", f"http://localhost:{port}/plain.jpg"), post("bafy2", "http://localhost/a.jpg")]],
        {"HARVESTER_ALLOW_PRIVATE_HOSTS": "false", "HARVESTER_PRIVATE_HOSTS": f"127.0.0.1:{port}"},  # for the page
    ).end()

    assert run.images == {"failed/address_refused": 2}
    assert len(run.records) == 2
    assert not site.hits["/plain.jpg"]


def test_no_picture_is_fetched_when_none_are_wanted(crawl: Crawl, site: Site, config: Config) -> None:
    run = crawl([[post("bafy1", f"{site.origin}/plain.jpg")]], media=False).end()

    assert len(run.records) == 1
    assert not site.hits["/plain.jpg"]
    assert not (config.data_dir / "images").exists()
    assert "RecordFilesPipeline" not in run.log


def test_few_pictures_are_fetched_at_the_same_time(crawl: Crawl, site: Site) -> None:
    posts = [post(f"bafy{n}", f"{site.origin}/gated/plain.jpg?{n}") for n in range(150)]

    run = crawl([posts[:50], posts[50:100], posts[100:]])
    wait_until(lambda: site.at_once >= 16)
    site.open_gate.set()

    assert run.end().images == {"stored": 150}
    assert 16 <= site.most_at_once <= 17  # 16 pictures, and a page


def test_a_host_that_refuses_is_left_alone_and_the_records_go_on(crawl: Crawl, site: Site) -> None:
    posts = [post(f"bafy{n}", f"{site.origin}/status/403/{n}") for n in range(200)]

    run = crawl([posts]).end()

    asked = sum(hits for path, hits in site.hits.items() if path.startswith("/status/"))
    assert 20 <= asked < 20 + 16
    assert run.images == {"failed/blocked": asked, "failed/host_left_alone": 200 - asked}
    assert len(run.records) == 200


def test_a_host_that_never_answers_costs_the_pictures_and_not_the_records(crawl: Crawl, site: Site) -> None:
    posts = [post("bafy1", f"{site.origin}/gated/plain.jpg"), post("bafy2", f"{site.origin}/plain.jpg")]

    run = crawl([posts], settings={"DOWNLOAD_TIMEOUT": 0.5}).end()

    assert run.images == {"stored": 1, "failed/timeout": 1}
    assert len(run.records) == 2
