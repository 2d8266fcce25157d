"""scrapy-redis's own tests of its scheduler and spiders, run against harvester: `python -m tests.compat`.

They come from its sdist, which is downloaded. What passes on scrapy-redis itself must pass on harvester, but for what
is listed here with a reason.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import redis

from tests.bench.servers import ROOT, own_redis

RELEASE = "scrapy-redis==0.9.1"
TESTS = ("tests/test_scrapy_redis.py::SchedulerTest", "tests/test_spiders.py")
REASONS = {
    "test_scheduler_persistent": "it waits for the log line 'Resuming crawl (2 requests scheduled)', which scrapy-redis"
    " writes by way of Spider.log; here `harvester frontier status` says what waits"
}
"""Test -> why it does not pass on harvester."""


def main() -> int:
    """Prints how each test ended on both sides; 1 when one ended otherwise than it should."""
    with TemporaryDirectory(prefix="harvester-compat-") as folder:
        source = _download(Path(folder))
        with own_redis() as uri:
            theirs, ours = _outcomes(source, uri, "tests.compat.theirs"), _outcomes(source, uri, "tests.compat.ours")
    wrong = 0
    for name, passes_there in theirs.items():
        if not passes_there:
            print(f"left out  {name}: it does not pass on scrapy-redis itself")
            continue
        reason = REASONS.get(name.partition("[")[0].rpartition("::")[2])
        wrong += ours[name] is bool(reason)
        said = "passes, and has a reason not to" if reason and ours[name] else reason or ""
        print(f"{'passes' if ours[name] else 'fails':9} {name}{': ' if said else ''}{said}")
    passing = sum(theirs.values())
    print(
        f"{sum(ours[name] for name in theirs if theirs[name])} of {passing} pass on harvester, too; {wrong} unexpected."
    )
    return 1 if wrong or not passing else 0


def _download(folder: Path) -> Path:
    """The folder of the unpacked sdist."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-binary", ":all:", "--dest", str(folder), RELEASE], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


def _outcomes(source: Path, uri: str, plugin: str) -> dict[str, bool]:
    """Test -> whether it passes with the plugin. Fails when nothing was run."""
    address = urlsplit(uri)
    with redis.Redis.from_url(uri) as client:
        client.flushall()
    written = source / f"{plugin}.json"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "REDIS_HOST": str(address.hostname),
        "REDIS_PORT": str(address.port),
        "HARVESTER_REDIS_URL": uri,
        "COMPAT_OUTCOMES": str(written),
    }
    options = ["-q", "-c", os.devnull, "--rootdir", str(source), "-p", "no:cacheprovider", "-p", plugin]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *TESTS],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not written.exists():
        sys.exit(f"{done.stdout}\n{done.stderr}")
    if "-v" in sys.argv:
        print(done.stdout)
    outcomes: dict[str, bool] = json.loads(written.read_text())
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
