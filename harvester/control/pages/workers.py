"""Workers with their requests, queues by spider, and the servers and folders of this installation."""

from dataclasses import dataclass
from functools import partial

from harvester.control.pages.components import Cell, RowsTable, TableRow, Tag, address, at, state_cell
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext
from harvester.control.services.queues import Queue, Queues, Worker, WorkerList
from harvester.control.services.servers import Folder, ServerReport, Servers, ServerStatus
from harvester.formatting import duration, size

WORKERS = ("worker", "spider", "state", "+holds", "the oldest for", "heard of", "+records", "since")
QUEUES = ("spider", "+ready", "+waiting", "+leased", "+parked", "+dead")
SERVERS = ("server", "state", "version", "answers in", "+clients", "holds", "running for", "where")
NO_WORKERS = """Nobody works. Workers start with `harvester up`, or by themselves:

harvester worker --processes 2"""
MOST = 100
EVERY_S, SERVERS_S = 2.0, 5.0


@dataclass(frozen=True, slots=True)
class _Seen:
    workers: WorkerList
    queues: list[Queue]


async def view(room: PageContext) -> None:
    with frame(room, "Workers and servers", "Workers"):
        with Tag("section", classes="card", aria_label="Workers"):
            workers = RowsTable("Workers", WORKERS, NO_WORKERS)
        with Tag("section", classes="card", aria_label="Queues"):
            queues = RowsTable("Requests in the frontier", QUEUES, "Nothing was ever queued.")
        with Tag("section", classes="card", aria_label="Servers"):
            servers = RowsTable("Servers", SERVERS, "None is known.")
        with Tag("section", classes="card", aria_label="Folders"):
            folders = RowsTable("Folders", ("folder", "free", "of", "path"), "None is known.")

        def show(seen: _Seen) -> None:
            workers.show([_worker(each) for each in seen.workers.workers])
            queues.show([_queue(each) for each in seen.queues])

        def show_servers(seen: Servers) -> None:
            servers.show([_server(each) for each in seen.servers])
            folders.show([_folder(each) for each in seen.folders])

        await room.broadcaster.watch("servers", partial(_servers, room), show_servers, SERVERS_S)
        await room.broadcaster.watch("workers", partial(_read, room), show, EVERY_S)


async def _read(room: PageContext) -> _Seen:
    queues = Queues(room.here.jobs)
    return _Seen(await queues.workers(most=MOST), await queues.depths())


async def _servers(room: PageContext) -> Servers:
    return await ServerStatus(room.here.jobs).read()


def _worker(worker: Worker) -> TableRow:
    since = Cell(at(worker.began_at) or "its run", address("runs", worker.run)) if worker.run else Cell("")
    state = state_cell("died" if worker.state == "gone" else worker.state, worker.state)
    oldest = duration(worker.oldest_s) if worker.holds else ""
    heard = f"{duration(worker.silent_s)} ago" if worker.silent_s >= 2 else "now"
    return TableRow(
        worker.name, [worker.name, worker.spider, state, worker.holds, oldest, heard, worker.records, since]
    )


def _queue(queue: Queue) -> TableRow:
    depth = queue.depth
    dead = Cell(f"{depth.dead:,}", address("dead-letters", spider=queue.spider) if depth.dead else "")
    return TableRow(queue.spider, [queue.spider, depth.ready, depth.waiting, depth.leased, depth.parked, dead])


def _server(server: ServerReport) -> TableRow:
    holds = size(server.bytes) + (f" of {size(server.most_bytes)}" if server.most_bytes else "")
    state = state_cell("up") if server.up else state_cell("down", f"down: {server.said}")
    if not server.up:
        return TableRow(server.name, [server.name, state, "", "", "", "", "", server.place])
    answers = "under 10 ms" if server.answer_ms < 10 else f"{server.answer_ms:,.0f} ms"
    up_for = duration(server.up_s, rough=True)
    return TableRow(
        server.name, [server.name, state, server.version, answers, server.clients, holds, up_for, server.place]
    )


def _folder(folder: Folder) -> TableRow:
    free = size(folder.free_bytes) if folder.total_bytes else "not there yet"
    return TableRow(
        folder.name, [folder.name, free, size(folder.total_bytes) if folder.total_bytes else "", folder.path]
    )
