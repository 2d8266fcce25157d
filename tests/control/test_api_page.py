"""docs/api.md is followed by the letter, and names every path there is."""

import asyncio
import os
import re
from pathlib import Path

from harvester.config import Config
from harvester.control.app import PREFIX
from harvester.control.tokens import kept_token
from tests.control.serving import BASE, controller, listening
from tests.root import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")


async def test_its_examples_do_what_it_says(config: Config, tmp_path: Path) -> None:
    config = config.model_copy(update={"state_dir": tmp_path / ".harvester"})
    async with controller(config) as running, listening(running.app) as url:
        await kept_token(config, running.context.tokens)
        script = "\n".join(re.findall(r"^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
        script = script.replace(f"{BASE}:8000", url)
        command = ("bash", "-euxo", "pipefail", "-c", script)
        environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
        ran = await asyncio.create_subprocess_exec(
            *command,
            cwd=tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out = (await ran.communicate())[0].decode()
        assert ran.returncode == 0, out
        jobs = await running.context.jobs.jobs()
        assert {job.name for job in jobs} == {"Two accounts", "A file"}
        assert {job.name for job in jobs if job.state == "cancelled"} == {"Two accounts"}
        for part in ('"names":', '"matched":0', '"pause_reason":"lunch"', "_id,kind,key", "event: job"):
            assert part in out, out
        assert '"accepted":2' in out


async def test_it_names_every_path_of_a_job(config: Config) -> None:
    async with controller(config) as running:
        paths = [path.removeprefix(PREFIX) for path in running.app.openapi()["paths"]]
    for path in paths:
        if path.startswith("/jobs"):
            assert path.rpartition("/")[2] in PAGE, path
