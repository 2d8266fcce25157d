"""A street of small sites in one process, each on a loopback port of its own: `python -m tests.sandbox.street <plans>`.

The plans are a file with a JSON list of HousePlan (street_plan.py). It prints one line of JSON, {"control": port,
"sites": {name: port}}, and ends when its standard input closes. The control port answers

    GET  /counts             what every site counted
    GET  /log?site=          the requests that a site saw, as lists [at, path, status, agent, note]
    POST /switch?site=&to=   a site refuses from now on (a word of REFUSALS), is `well`, or goes on as `planned`
    POST /forget?site=       every session of a site with logins ends
"""

import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from ssl import SSLContext
from tempfile import TemporaryDirectory
from time import monotonic
from urllib.parse import parse_qs

import msgspec
import uvloop

from tests.sandbox.street_house import NOT_FOUND, Answer, Asked, FlappingHouse, House, TroubledHouse
from tests.sandbox.street_limits import LimitedHouse
from tests.sandbox.street_logins import FormHouse, TokenHouse
from tests.sandbox.street_plan import REFUSALS, HousePlan
from tests.sandbox.street_traps import ScriptHouse, TrapsHouse
from tests.sandbox.street_webforms import WebFormsHouse
from tests.sandbox.street_wire import Connection

HOUSES: dict[str, type[House]] = {
    "well": House,
    "limited": LimitedHouse,
    "blocking": TroubledHouse,
    "down": TroubledHouse,
    "flapping": FlappingHouse,
    "form": FormHouse,
    "token": TokenHouse,
    "traps": TrapsHouse,
    "script": ScriptHouse,
    "webforms": WebFormsHouse,
}
LOOK_S = 0.05
"""How often it is seen to it that sites which do not listen do not."""


class Control:
    """Tells what the sites saw, and has them refuse."""

    def __init__(self, houses: Mapping[str, House]) -> None:
        self._houses = houses

    def answer(self, asked: Asked, now: float) -> Answer:
        path, _, query = asked.path.partition("?")
        given = {name: values[0] for name, values in parse_qs(query).items()}
        if path == "/counts":
            return self._told({name: dict(house.counts) for name, house in self._houses.items()})
        house = self._houses.get(given.get("site", ""))
        if house is None:
            return NOT_FOUND
        if path == "/log":
            return self._told(house.log)
        if path == "/switch":
            to = given["to"]
            assert to in (*REFUSALS, "well", "planned"), to
            house.forced = {"well": "", "planned": None}.get(to, to)
            return self._told({})
        if path == "/forget" and isinstance(house, (FormHouse, TokenHouse, WebFormsHouse)):
            house.end_all()
            return self._told({})
        return NOT_FOUND

    def answered(self, asked: Asked) -> None:
        pass

    def _told(self, what: object) -> Answer:
        return Answer(200, msgspec.json.encode(what))


class Door:
    """Where a site listens; it is closed while the site refuses connections."""

    def __init__(self, house: House, tls: SSLContext | None) -> None:
        self.house = house
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def tend(self) -> None:
        """Opens or closes it, as it should be now."""
        shut = self.house.refusal(monotonic()) == "refuse"
        if shut and self._server:
            self._server.close()
            self._server = None
        elif not shut and not self._server:
            speaks = partial(_connection, self.house)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(speaks, "127.0.0.1", self.house.port, ssl=self._tls, backlog=512)
            self.house.port = self._server.sockets[0].getsockname()[1]


def _connection(house: House) -> asyncio.Protocol:
    if house.plan.scheme != "h2":
        return Connection(house)
    from tests.sandbox.street_h2 import H2Connection

    return H2Connection(house)


def _tls_of(plan: HousePlan, folder: Path) -> SSLContext | None:
    if plan.scheme == "http":
        return None
    from tests.sandbox.street_tls import tls_context

    return tls_context(folder, "h2" if plan.scheme == "h2" else "http/1.1")


async def serve(plans: list[HousePlan], folder: Path) -> None:
    """Serves until it is cancelled."""
    houses = {plan.name: HOUSES[plan.kind](plan) for plan in plans}
    doors = [Door(house, _tls_of(house.plan, folder)) for house in houses.values()]
    for door in doors:
        await door.tend()
    control = Control(houses)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(control), "127.0.0.1", 0)
    ports = {name: house.port for name, house in houses.items()}
    print(msgspec.json.encode({"control": server.sockets[0].getsockname()[1], "sites": ports}).decode(), flush=True)
    while True:
        await asyncio.sleep(LOOK_S)
        for door in doors:
            await door.tend()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _plans = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[HousePlan])
    with TemporaryDirectory(prefix="street-") as _folder:
        uvloop.run(serve(_plans, Path(_folder)))
