"""Ports for servers that cannot take a free one and tell which, and for addresses at which nobody listens.

No other test of this machine is given the same one, in whatever process or checkout it runs, and no system hands it
to a connection or to who asks for port 0.
"""

import random
import socket

RANGE = range(12_000, 22_000)
"""Below the ports that systems hand out (from 32,768 on), as are those 10,000 above, which some servers take too."""

_held: list[int] = []
"""Bare descriptors: a socket that is still open when its process ends would be warned of."""


def free_port(count: int = 1) -> int:
    """The first of `count` ports in a row that are this process's until it ends, with those 10,000 above."""
    while True:
        first = random.choice(RANGE[:-count])
        ports = range(first, first + count)
        holds = [socket.socket(type=socket.SOCK_DGRAM) for _ in ports]
        if all(_hold(socket_, port) for socket_, port in zip(holds, ports, strict=True)) and all(
            _is_free(port) and _is_free(port + 10_000) for port in ports
        ):
            _held.extend(socket_.detach() for socket_ in holds)
            return first
        for socket_ in holds:
            socket_.close()


def _hold(socket_: socket.socket, port: int) -> bool:
    """Takes the UDP port of that number: it is a lock that ends with its process, and leaves TCP to the server."""
    try:
        socket_.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
