"""Log lines as JSON: each line an object, with its traceback inside and no secret in it."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

from harvester.config import Config
from harvester.logs import JsonFormatter
from harvester.masking import MaskedLogRecord, mask
from tests import forking
from tests.jobs.command import HARVESTER
from tests.root import ROOT

SECRET = "s3cret-of-ann-8271"


def variables(config: Config, redis_url: str, folder: Path) -> dict[str, str]:
    assert config.mongodb_uri
    own = {
        "HARVESTER_LOG_FORMAT": "json",
        "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
        "HARVESTER_REDIS_URL": redis_url,
        "HARVESTER_DATABASE": config.database,
        "HARVESTER_STATE_DIR": str(folder),
        "HARVESTER_DATA_DIR": str(folder / "data"),
        "SCRAPY_SETTINGS_MODULE": "harvester.settings",
        "PYTHONPATH": str(ROOT),
    }
    return {**os.environ, **own}


def test_a_line_holds_its_traceback_and_masks_what_is_secret() -> None:
    mask.add(SECRET)
    error = ValueError(f"a site said {SECRET}\nand more")
    fault = (ValueError, error, None)
    record = MaskedLogRecord("a", logging.ERROR, "a.py", 1, "Told %s", (SECRET,), fault)
    line = JsonFormatter().format(record)
    told = json.loads(line)
    assert "\n" not in line
    assert SECRET not in line
    assert told["message"] == "Told ***"
    assert told["level"] == "ERROR"
    assert told["exception"] == "ValueError: a site said ***\nand more"
    assert told["time"].endswith("+00:00")


def test_a_line_is_json_in_every_encoding() -> None:
    text = "caf\u00e9 \u65e5 \U0001f600 \udc80"
    line = JsonFormatter().format(logging.LogRecord("a", logging.INFO, "a.py", 1, text, (), None))
    assert json.loads(line.encode("ascii", "backslashreplace"))["message"] == text


def test_what_is_said_of_a_command_that_cannot_begin_is_a_line_too(
    config: Config, tmp_path: Path, own_redis: str
) -> None:
    words, environment = ("crawl", "bluesky", "-a", "depth=deep"), variables(config, own_redis, tmp_path)
    ended = forking.run("scrapy", *words, cwd=tmp_path, env=environment)
    assert ended.returncode == 2
    assert "depth" in json.loads(ended.stderr.splitlines()[-1])["message"]


def test_all_that_a_crawl_says_is_objects_which_name_spider_and_run(
    config: Config, tmp_path: Path, own_redis: str
) -> None:
    (tmp_path / "small.py").write_text(
        "import scrapy\nclass Small(scrapy.Spider):\n    name = 'small'\n"
        "    async def start(self):\n        self.logger.warning('two\\nlines')\n        yield {'a': 1}\n"
    )
    command = [sys.executable, "-m", "scrapy", "crawl", "small.py"]  # from nothing: what is imported may speak, too
    environment = variables(config, own_redis, tmp_path)
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    (two,) = [line for line in lines if line["message"] == "two\nlines"]
    assert (two["spider"], two["level"], two["logger"]) == ("small", "WARNING", "small")
    assert two["run"] in lines[-1]["run"]
    assert "\n" in lines[-1]["message"], "the summary is the last line"


def test_a_control_room_whose_lines_are_collected_tells_its_token_to_nobody(
    config: Config, tmp_path: Path, own_redis: str
) -> None:
    words, environment = ("up", "--no-workers", "--port", "0"), variables(config, own_redis, tmp_path)
    reading, writing = os.pipe()
    up = forking.begin(HARVESTER, *words, cwd=tmp_path, env=environment, files=[None, None, writing])
    os.close(writing)
    said = []
    try:
        with os.fdopen(reading) as lines:
            for line in lines:
                said.append(json.loads(line)["message"])
                if "Ctrl-C" in line:
                    up.terminate()
    finally:
        up.kill()
        up.wait()
    token = (tmp_path / "token").read_text().strip()
    assert len(token) > 40
    assert [line for line in said if "http://127.0.0.1:" in line]
    assert not [line for line in said if token in line or "login" in line]
