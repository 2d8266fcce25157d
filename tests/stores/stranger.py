"""What another user of this machine can do with folders and servers that are not theirs.

    python -m tests.stores.stranger <folder> ... -- <pid> ...

Started by root. It becomes uid 65534, and prints as JSON all that it could read, list, write or speak to.
"""

import json
import os
import re
import socket
import sys
from pathlib import Path

NOBODY = 65_534


def reads(folder: str) -> list[str]:
    """What of a folder, and of what is known to be in it, can be read, listed or written."""
    found = []
    for path in (Path(folder), *map(Path, KNOWN[folder])):
        for mode, word in ((os.R_OK, "read"), (os.W_OK, "write")):
            if os.access(path, mode, effective_ids=True):
                found.append(f"{word} {path}")
    return found


def speaks(address: str) -> list[str]:
    """Whether a server can be reached there, and what it says to one who knows no secret."""
    host, _, port = address.rpartition(":")
    kind = socket.AF_UNIX if address.startswith("/") else socket.AF_INET
    with socket.socket(kind) as connection:
        connection.settimeout(5)
        try:
            connection.connect(address if kind == socket.AF_UNIX else (host, int(port)))
            connection.sendall(b"PING\r\n")
            return [f"connect to {address}: {connection.recv(100)!r}"]
        except OSError as error:
            return [] if isinstance(error, PermissionError) else [f"{address}: {error}"]


def process(pid: str) -> list[str]:
    """What /proc gives away of a process."""
    found = []
    for name in ("environ", "mem", "fd"):
        if os.access(f"/proc/{pid}/{name}", os.R_OK, effective_ids=True):
            found.append(f"read /proc/{pid}/{name}")
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    return found + [f"secret in /proc/{pid}/cmdline" for secret in SECRETS if secret in words]


def addresses(pids: list[str]) -> list[str]:
    """All addresses at which the processes listen, from /proc, as root."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor)):
                inodes.add(match[1])
    found = []
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if fields[6] in inodes and len(fields) > 7 and fields[3] == "00010000":  # it accepts connections
            found.append(fields[7])
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] == "0A":
                found.append(f"127.0.0.1:{int(fields[1].rpartition(':')[2], 16)}")
    return found


if __name__ == "__main__":
    cut = sys.argv.index("--")
    folders, pids = sys.argv[1:cut], sys.argv[cut + 1 :]
    KNOWN = {folder: [str(path) for path in Path(folder).rglob("*")] for folder in folders}
    SECRETS = [path.read_bytes().strip() for folder in folders for path in Path(folder).rglob("secret")]
    listening = addresses(pids)
    assert SECRETS
    "".encode("idna")  # loads what could not be read later
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    could = [each for folder in folders for each in reads(folder)]
    could += [each for address in listening for each in speaks(address)]
    could += [each for pid in pids for each in process(pid)]
    print(json.dumps({"listening": listening, "known": sum(map(len, KNOWN.values())), "could": could}))
