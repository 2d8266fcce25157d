"""Servers, folders and settings: what is there, what is away, and no secret."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from harvester.config import Config, load_config
from harvester.control.services.servers import ServerStatus
from harvester.control.services.settings import Settings
from harvester.jobs.service import JobService, job_service


async def test_servers_that_are_there_say_how_large_they_are(service: JobService, tmp_path: Path) -> None:
    found = await ServerStatus(service).read()
    assert [(each.name, each.up, each.said) for each in found.servers] == [("MongoDB", True, ""), ("Redis", True, "")]
    for server in found.servers:
        assert server.version[0].isdecimal()
        assert server.clients > 0
        assert server.bytes > 0
    folders = {each.name: each for each in found.folders}
    assert folders.keys() == {"data", "state", "images"}
    assert folders["data"].path == str(tmp_path / "data")


async def test_a_server_that_is_away_is_said_to_be_so(service: JobService, config: Config, free_port: int) -> None:
    lost = config.model_copy(update={"redis_url": SecretStr(f"redis://jane:hunter2hunter2@127.0.0.1:{free_port}/0")})
    async with job_service(lost) as service:
        mongodb, redis = (await ServerStatus(service).read()).servers
    assert mongodb.up
    assert not redis.up
    assert redis.said
    assert redis.place == f"redis://127.0.0.1:{free_port}/0"
    assert "hunter2" not in str(redis)


async def test_settings_in_force_say_where_they_come_from_and_show_no_secret(
    service: JobService, mongodb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "REDIS_URL": "redis://jane:hunter2hunter2@127.0.0.1:1/0",
        "HARVESTER_SMTP_PASSWORD": "hunter3hunter3",
        "HARVESTER_ALERT_WEBHOOK_URL": "https://hooks.example.org/services/hunter4hunter4",
        "HARVESTER_IDLE_SECONDS": "5",
        "HARVESTER_IMAGES_STORE": "s3://key:hunter5hunter5@bucket/prefix",
        "HARVESTER_MONGODB_URI": mongodb_uri,
    }.items():
        monkeypatch.setenv(name, value)
    load_config.cache_clear()
    async with job_service(load_config()) as service:
        found = {each.name: each for each in Settings(service).all()}
    assert (found["REDIS_URL"].value, found["REDIS_URL"].secret) == ("***", True)
    assert (found["HARVESTER_IDLE_SECONDS"].value, found["HARVESTER_IDLE_SECONDS"].source) == ("5.0", "environment")
    assert (found["HARVESTER_LEASE_SECONDS"].value, found["HARVESTER_LEASE_SECONDS"].source) == ("30.0", "default")
    assert found["HARVESTER_REDIS_MAY_FORGET"].value == "false"
    assert found["HARVESTER_POSTGRES_URI"].value == ""
    assert "hunter" not in str(found)
    assert len(found) == len(Config.model_fields)
