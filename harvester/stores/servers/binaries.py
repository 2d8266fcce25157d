"""Finds a binary that runs on this machine: first the system's own, then binaries in Python packages."""

import shutil
import signal
import subprocess

from harvester.exceptions import ServiceError
from harvester.stores.servers.kinds import PrivateServer

TRIAL_TIMEOUT_SECONDS = 30


def find_binary(server: PrivateServer) -> str:
    """Returns the path of the server's binary. Raises ServiceError with the errors of all candidates."""
    found = [path for name in server.executables if (path := shutil.which(name))]
    found += [str(path) for path in server.wheel_binaries()]
    complaints = []
    for binary in found:
        complaint = _complaint_of(binary)
        if complaint is None:
            return binary
        complaints.append(f"  {binary}: {complaint}")
    names = " or ".join(server.executables)
    reasons = "\n".join(complaints) or f"  there is no {names}, on PATH or in a Python package"
    remedies = "\n".join(f"  - {remedy}" for remedy in server.remedies)
    raise ServiceError(
        f"{server.title} cannot be started on this machine:\n{reasons}\nOne of these mends it:\n{remedies}"
    )


def describe_exit(code: int) -> str:
    """Describes the return code of a process. Negative codes are signals, as in subprocess."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    if name == "SIGILL":
        return "SIGILL: this processor lacks instructions it needs (MongoDB needs AVX since 5.0)"
    return name


def _complaint_of(binary: str) -> str | None:
    """Returns the reason why the binary does not run; None if it runs."""
    try:
        trial = subprocess.run(
            [binary, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRIAL_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if trial.returncode == 0:
        return None
    return trial.stderr.strip() or describe_exit(trial.returncode)
