"""Leads whatever a process connects to outside this machine to the stand-in: Python reads this module as it starts.

Both sides of the comparison run with it. Names resolve to one address, and connections to any address but loopback
go to the port of the stand-in for http, or to that for https where 443 is asked for.
"""

import ipaddress
import os
import socket
from typing import Any

ADDRESS = "93.184.215.14"
"""What each name resolves to: a public address, to which nothing is sent."""
_LOOPBACK = "127.0.0.1"
_HERE = ("localhost", "", None, socket.gethostname())
_connect, _connect_ex, _getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo


def _is_here(host: Any) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _HERE


def _led(sock: socket.socket, address: Any) -> Any:
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or _is_here(address[0]):
        return address
    return (_LOOPBACK, int(os.environ["STAND_IN_HTTPS" if address[1] == 443 else "STAND_IN_HTTP"]))


def _getaddrinfo_of_stand_in(host: Any, port: Any, *more: Any, **named: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else host
    if not _is_here(name):
        if socket.AF_INET6 in (*more[:1], named.get("family")):
            raise socket.gaierror(socket.EAI_NONAME, "the stand-in has no address of this family")
        host = ADDRESS
    return _getaddrinfo(host, port, *more, **named)


def _gethostbyname(name: str) -> str:
    return _LOOPBACK if _is_here(name) else ADDRESS


class _Socket(socket.socket):
    """Its two methods are those of every socket."""

    def connect(self, address: Any) -> None:
        _connect(self, _led(self, address))

    def connect_ex(self, address: Any) -> int:
        return _connect_ex(self, _led(self, address))


socket.socket.connect = _Socket.connect  # type: ignore[method-assign, assignment]
socket.socket.connect_ex = _Socket.connect_ex  # type: ignore[method-assign, assignment]
socket.getaddrinfo = _getaddrinfo_of_stand_in
socket.gethostbyname = _gethostbyname
