"""The picture of a harvest, from a made-up harvest in a real MongoDB."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import SecretStr
from pymongo.database import Database
from typer.testing import CliRunner

from harvester.cli.app import app
from harvester.config import Config
from harvester.dashboard.figures import gather
from harvester.dashboard.report import thumbnail, write_report
from harvester.exceptions import ServiceError, StorageError, UsageError
from harvester.jobs.documents import State, to_document
from harvester.stores.mongodb import OPTIONS
from tests.dashboard.harvest import JOB, did, fill, item

Mongo = Database[dict[str, Any]]


class _Tags(HTMLParser):
    """Tags with their attributes; checks that what is opened is closed."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_is_one_file_that_loads_nothing_and_runs_nothing(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=40, posts=200)
    path = write_report(config)
    page = path.read_text("utf-8")
    tags = _Tags(page)
    assert tags.open == []
    for tag, attributes in tags.found:
        assert tag not in ("script", "link", "iframe", "object", "embed", "form", "base")
        assert not [name for name in attributes if name.startswith("on")]
        if tag in ("img", "image"):
            source = attributes.get("src") or attributes.get("href") or ""
            assert source.startswith("data:image/jpeg;base64,")
        if tag == "a":
            assert (attributes["href"] or "").startswith("https://bsky.app/profile/did:plc:")
    assert "url(" not in page.replace("url(#round)", "")
    assert "@import" not in page


def test_text_from_the_network_is_escaped(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=20, posts=30)
    page = write_report(config).read_text("utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; 0" in page
    assert "the &lt;gulls&gt; slept &amp; nobody" in page


def test_figures_are_those_of_the_harvest(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=60, posts=400)
    figures = gather(mongodb)
    assert figures.counts["profiles"] == 60
    assert figures.counts["follows"] == mongodb["follows"].count_documents({})
    assert figures.pictures == 45
    assert figures.items == {"account": {"done": 59, "failed": 1}}
    followers = {
        person.did: mongodb["follows"].count_documents({"subject_did": person.did}) for person in figures.people
    }
    assert [person.followers for person in figures.people] == sorted(followers.values(), reverse=True)
    assert {person.did: person.followers for person in figures.people} == followers
    by_position = {(figures.people[one].did, figures.people[other].did) for one, other in figures.follows}
    drawn = list(followers)
    edges = mongodb["follows"].find({"did": {"$in": drawn}, "subject_did": {"$in": drawn}})
    assert by_position == {(edge["did"], edge["subject_did"]) for edge in edges}
    assert len(by_position) > 300
    assert sum(figures.days.values()) == 400
    assert [thread.posts for thread in figures.threads] == sorted((3 + n * n for n in range(3, 15)), reverse=True)
    assert figures.threads[0].text.startswith("Post 14: ")


def test_tags_languages_and_sites_count_once_a_post_however_they_are_written(mongodb: Mongo) -> None:
    tag, link = {"kind": "tag"}, {"kind": "link"}
    mongodb["posts"].insert_many(
        [
            {
                "_id": 1,
                "tags": ["Art"],
                "facets": [
                    tag | {"value": "ART"},
                    tag | {"value": "rain"},
                    link | {"value": "https://www.One.example/a"},
                ],
                "langs": ["en", "en-GB"],
                "embed": {"external": {"url": "https://one.example/b"}},
            },
            {"_id": 2, "facets": [tag | {"value": "art"}, link | {"value": "no address"}], "langs": ["pt-BR"]},
            {
                "_id": 3,
                "facets": [link | {"value": "http://awww.example/x"}, {"kind": "mention", "value": "did:plc:x"}],
            },
            {"_id": 4},
        ]
    )
    figures = gather(mongodb)
    assert figures.hashtags == [("art", 2), ("rain", 1)]
    assert figures.languages == [("en", 1), ("pt", 1)]
    assert figures.domains == [("awww.example", 1), ("one.example", 1)]


def test_one_job_can_be_shown_alone(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=20, posts=30)
    mongodb["profiles"].insert_one({"_id": did(900), "did": did(900), "provenance": {"crawl": "another"}})
    mongodb["job_items"].insert_one(to_document(item("another", 900, State.WAITING)))
    mongodb["posts"].insert_one({"_id": "x", "tags": ["elsewhere"], "provenance": {"crawl": "another"}})
    assert gather(mongodb).counts["profiles"] == 21
    assert ("elsewhere", 1) in gather(mongodb).hashtags
    assert gather(mongodb).items == {"account": {"waiting": 1, "done": 20}}
    alone = gather(mongodb, JOB)
    assert alone.counts["profiles"] == 20
    assert alone.items == {"account": {"done": 20}}
    assert ("elsewhere", 1) not in alone.hashtags
    page = write_report(config, JOB).read_text("utf-8")
    assert f"<h1>{JOB}</h1>" in page
    assert "Accounts of the job: 20 done." in page
    assert "from 01 November 2026, 00:00 UTC to 01 November 2026, 00:42 UTC" in page


def test_accounts_that_are_followed_and_were_not_collected_are_not_in_the_picture(mongodb: Mongo) -> None:
    mongodb["follows"].insert_many(
        [
            {"_id": f"{did(n)} {did(other)}", "did": did(n), "subject_did": did(other)}
            for n in range(9)
            for other in (50, 1)
        ]
    )
    assert [person.did for person in gather(mongodb).people] == [did(1), did(50)], "no profile at all: all are shown"
    mongodb["profiles"].insert_one({"_id": did(1), "handle": "one.example"})
    assert [person.name for person in gather(mongodb).people] == ["one.example"]


def test_a_part_of_a_harvest_has_a_report_too(config: Config, mongodb: Mongo) -> None:
    mongodb["follows"].insert_one({"_id": f"{did(1)} {did(2)}", "did": did(1), "subject_did": did(2)})
    page = write_report(config).read_text("utf-8")
    assert "Who follows whom" in page
    assert "Posts over time" not in page
    mongodb["follows"].drop()
    mongodb["posts"].insert_one({"_id": "at://did:plc:x/app.bsky.feed.post/1", "did": "did:plc:x"})
    assert "Who follows whom" not in write_report(config).read_text("utf-8")


def test_absurd_dates_are_said(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=20, posts=500)
    page = " ".join(write_report(config).read_text("utf-8").split())
    assert "Not drawn: 2 posts whose dates lie far from all others (the posts say 1999-01-01 to 2099-01-01)" in page


def test_nothing_to_show_is_a_sentence(config: Config, mongodb: Mongo) -> None:
    with pytest.raises(UsageError, match=f"There are no records in the database {mongodb.name}"):
        write_report(config)
    fill(mongodb, Path(config.images_location), accounts=5, posts=5)
    with pytest.raises(UsageError, match="There are no records of the job nonsense in the database"):
        write_report(config, "nonsense")


def test_a_place_that_cannot_be_written_is_a_sentence(config: Config, mongodb: Mongo, tmp_path: Path) -> None:
    fill(mongodb, Path(config.images_location), accounts=5, posts=5)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"The report cannot be written to .*: (Not a directory|File exists)"):
        write_report(config, out=tmp_path / "file" / "report.html")


def test_a_database_that_cannot_be_asked_is_a_sentence(
    config: Config, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIONS, "serverSelectionTimeoutMS", 100)
    uri = SecretStr(f"mongodb://ann:secret@127.0.0.1:{free_port}/")
    with pytest.raises(ServiceError, match=r"MongoDB cannot be reached: .*Connection refused") as caught:
        write_report(config.model_copy(update={"mongodb_uri": uri}))
    assert "secret" not in str(caught.value)


def test_the_command_writes_where_it_is_told(
    config: Config, mongodb: Mongo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(mongodb, Path(config.images_location), accounts=5, posts=5)
    assert config.mongodb_uri
    monkeypatch.setenv("HARVESTER_MONGODB_URI", config.mongodb_uri.get_secret_value())
    out = tmp_path / "deep" / "picture.html"
    ended = CliRunner().invoke(app, ["report", "--database", mongodb.name, "--job", JOB, "--out", str(out)])
    assert (ended.exit_code, ended.stdout) == (0, f"{out}\n")
    assert JOB in out.read_text("utf-8")
    ended = CliRunner().invoke(app, ["report", "--database", "a b"])
    assert isinstance(ended.exception, UsageError)


def test_pictures_are_small_and_come_only_from_the_images_folder(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    Image.effect_noise((1000, 1000), 80).convert("RGB").save(images / "a.jpg")
    Image.new("RGB", (50, 50)).save(tmp_path / "outside.jpg")
    (images / "broken.jpg").write_bytes((images / "a.jpg").read_bytes()[:3000])
    (images / "text.jpg").write_text("<svg onload=alert(1)>")
    found = thumbnail(images, "a.jpg")
    assert re.fullmatch(r"data:image/jpeg;base64,[A-Za-z0-9+/=]+", found)
    assert len(found) < 8000
    for picture in ("", "missing.jpg", "../outside.jpg", str(tmp_path / "outside.jpg"), "broken.jpg", "text.jpg", "."):
        assert thumbnail(images, picture) == ""
