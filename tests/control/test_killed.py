"""A controller that is killed at any moment leaves nothing half done, and its idempotency keys hold."""

import os
import random
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pymongo.database import Database

from harvester.control.idempotency import KEYS
from tests.control.server import Server, serving
from tests.jobs.command import Jobs

Document = dict[str, Any]

LINES = "".join(f"{number}\n" for number in range(1, 3001))
QUERY = {"spider": "parcels", "argument": "county=elm"}
MOMENTS = {
    "submit": ["insert idempotency_keys", "insert jobs", "update jobs", "insert job_items", "update idempotency_keys"],
    "retry": ["insert batches", "update job_items", "update jobs", "update batches", "update idempotency_keys"],
    "pause": ["insert audit", "update jobs", "update audit"],
    "cancel": ["update jobs", "insert batches", "update job_items", "update batches"],
    "export": ["find job_items", "getMore job_items"],
}
"""Commands to MongoDB at which it may die, by what it does then."""


class Client:
    """Sends what it asks for again until it is answered, as one is to do, and starts the controller that has died."""

    def __init__(self, server: Server, token: str) -> None:
        self._server = server
        self._http = httpx2.Client(base_url=f"{server.url}/api/v1", headers={"Authorization": f"Bearer {token}"})
        self.kills = 0

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        while True:
            try:
                answer = self._http.request(method, path, timeout=120, **options)
            except httpx2.TransportError:
                assert self._server.process.wait(60) < 0
                self.kills += 1
                self._server.start()
                continue
            if answer.status_code != 409 or "under_way" not in answer.text:
                assert answer.status_code < 300, answer.text
                return answer
            time.sleep(0.2)

    def submit(self, key: str) -> str:
        headers = {"Idempotency-Key": key, "Content-Type": "text/plain"}
        answer = self.ask("POST", "/jobs/upload", content=LINES.encode(), headers=headers, params=QUERY)
        job: str = answer.json()["job"]
        return job

    def ended(self, location: str) -> Document:
        while True:
            batch: Document = self.ask("GET", location.removeprefix("/api/v1")).json()
            if batch["state"] != "running":
                return batch
            time.sleep(0.1)

    def close(self) -> None:
        self._http.close()


def check(client: Client, server: Server, mongodb: Database[Document], doing: str, number: int) -> None:
    """Does one thing with a controller that dies meanwhile, and looks whether it is done once, and whole."""
    items = mongodb["job_items"]
    command = random.choice(MOMENTS[doing])
    moment = f"{command} {random.choice([1, 2, 3]) if command == 'insert job_items' else 1}"
    job = "" if doing == "submit" else client.submit(f"job of {number}")
    if doing == "retry":
        items.update_many({"job": job, "line": {"$lte": 2000}}, {"$set": {"state": "failed", "outcome": "blocked"}})
    server.die_at(moment)
    if doing == "submit":
        job = client.submit(f"key of {number}")
        assert client.submit(f"key of {number}") == job
        assert mongodb["jobs"].count_documents({"idempotency_key": f"key of {number}"}) == 1
        assert items.count_documents({"job": job, "state": "waiting"}) == 3000, moment
    elif doing == "retry":
        headers, body = {"Idempotency-Key": f"retry of {number}"}, {"filter": {"outcome": ["blocked"]}}
        locations = {
            client.ask("POST", f"/jobs/{job}/retry", json=body, headers=headers).headers["location"] for _ in range(2)
        }
        (location,) = locations
        batch = client.ended(location)
        assert (batch["state"], batch["matched"], batch["done"]) == ("done", 2000, 2000), moment
        assert items.count_documents({"job": job, "state": "waiting"}) == 3000
    elif doing == "pause":
        client.ask("POST", f"/jobs/{job}/pause", json={"reason": "lunch"})
        row = mongodb["jobs"].find_one({"_id": job})
        assert row
        assert (row["state"], row["pause_reason"]) == ("paused", "lunch"), moment
    elif doing == "cancel":
        client.ended(client.ask("POST", f"/jobs/{job}/cancel").headers["location"])
        assert items.count_documents({"job": job, "state": "skipped"}) == 3000, moment
    else:
        rows = client.ask("GET", f"/jobs/{job}/manifest").text
        assert rows.count("\n") == 3000, moment
    assert mongodb[KEYS].count_documents({"answer": None}) == 0, "no key is held by one that died"
    open_lines = mongodb["audit"].count_documents({"status": {"$exists": False}})
    assert open_lines <= client.kills + 1, "a line is ended behind the answer"


@pytest.fixture
def tried(jobs: Jobs, mongodb: Database[Document], tmp_path: Path) -> Any:
    made = jobs.harvester("tokens", "add", "Ann", "--scope", "operate")
    assert made.code == 0, made.err

    def try_all(kinds: list[str]) -> int:
        with serving(jobs.variables, tmp_path) as server:
            client = Client(server, made.out.strip())
            try:
                for number, doing in enumerate(kinds):
                    check(client, server, mongodb, doing, number)
            finally:
                client.close()
            return client.kills

    return try_all


def test_nothing_is_half_done_when_the_controller_is_killed(tried: Any) -> None:
    random.seed(7)
    assert tried(["submit", "retry", "export"]) == 3


@pytest.mark.soak
def test_nothing_is_half_done_in_twenty_kills(tried: Any) -> None:
    seed = int(os.environ.get("SEED", str(time.time_ns())))
    print(f"SEED={seed}")
    random.seed(seed)
    assert tried([random.choice(list(MOMENTS)) for _ in range(24)]) >= 20
