"""Submits a job: a spider, its arguments by its JSON Schema, and pasted or uploaded items."""

import asyncio
import gzip
import os
import secrets
import tempfile
import zlib
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, cast

from nicegui import events, ui

from harvester.control.pages.arguments import Arguments, Known, first, spiders
from harvester.control.pages.components import RowsTable, TableRow, Tag, address, button
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext, complain
from harvester.formatting import counted
from harvester.jobs.inputs import Input, InputFormat, opened
from harvester.jobs.submission import Submission, Submitted
from harvester.validation import MOST_NUMBER

MOST_FILE_BYTES = 500_000_000
"""Maximum number of bytes of an upload through a page. Larger files need `harvester jobs submit`."""
PIECE_BYTES = 1 << 20
"""Bytes to decompress at a time."""
SEEDS = "seeds"
"""An argument for the source of items; here the items themselves are given."""


async def view(room: PageContext, spider: str = "") -> None:
    """`spider`: the preselected spider."""
    known = await asyncio.to_thread(spiders)
    with frame(room, "Submit a job", "Jobs", "A job is a spider, its arguments, and the items it deals with."):
        if not known:
            Tag("p", "No spider of this project takes items. Type: harvester spiders list", "empty")
            return
        _Form(room, known, first(known, spider))


class _Form:
    def __init__(self, room: PageContext, known: Known, spider: str) -> None:
        self._room = room
        self._known = known
        self._key = secrets.token_hex(16)
        """The idempotency key: a second press of the button submits the same job."""
        self._upload: Path | None = None
        self._upload_name = ""
        """The name for people; its suffix gives the format."""
        with Tag("section", classes="card", aria_label="Spider and items"):
            with Tag("div", classes="line end"):
                self._spider = ui.select(sorted(known), label="Spider", value=spider, on_change=self._show_spider)
                self._spider.props("outlined dense options-dense")
                self._kind = ui.select([""], label="Kind of the items").props("outlined dense options-dense")
                self._name = ui.input("Name, for people").props("outlined dense maxlength=200")
                self._priority = ui.number("Priority", value=0).props("outlined dense")
                self._most = ui.number("At most so many items").props("outlined dense clearable")
            self._about = Tag("p", "", "said")
            self._pasted = ui.textarea("Items: one a line, or CSV with a header, or JSON lines")
            self._pasted.props("outlined data-items").classes("w-full").style("width: 100%")
            forms = {"": "text, or JSON lines", InputFormat.CSV: "CSV with a header"}
            self._form = ui.select(forms, label="What is pasted is", value="").props("outlined dense options-dense")
            chosen = ui.upload(
                max_file_size=MOST_FILE_BYTES, auto_upload=True, on_upload=self._keep, on_rejected=_too_large
            )
            chosen.on("failed", _not_taken, js_handler="({ xhr }) => emit(xhr.status, xhr.responseText)")
            chosen.style("display: none")  # its own button has no name for screen readers

            def pick() -> None:
                chosen.reset()  # otherwise it would reject a file that it had before
                chosen.run_method("pickFiles")

            with Tag("div", classes="line").style("margin: 10px 0 0"):
                button("Upload a file instead", pick)
                self._file = Tag("span", "text, CSV or JSON lines, also .gz", "faint")
        with Tag("section", classes="card", aria_label="Arguments"):
            Tag("h2", "Arguments")
            self._arguments = Arguments(SEEDS)
        with Tag("div", classes="line"):
            self._button = button("Submit", self.submit, "main")
        self._answer = Tag("section", role="status", aria_label="Answer")
        self._show_spider()
        ui.context.client.on_delete(self._forget)

    def _show_spider(self) -> None:
        about, kinds, schema = self._known[str(self._spider.value)]
        self._about.text = about
        self._kind.set_options(list(kinds), value=kinds[0])
        self._kind.visible = len(kinds) > 1
        self._arguments.show(schema)

    async def _keep(self, event: events.UploadEventArguments) -> None:
        """Saves the upload in a temporary file that is removed with the page.

        It can be submitted only when it is complete.
        """
        self._forget()
        given = event.file.name
        self._upload_name = name = given.removesuffix(".gz")
        descriptor, made = tempfile.mkstemp(prefix="harvester-upload-")
        os.close(descriptor)
        path, why = Path(made), ""
        self._file.text = f"{given} is being read ..."
        try:
            await event.file.save(path)
            if name != given and not await asyncio.to_thread(_decompress, path):
                why = f"it is no gzip, or holds more than {MOST_FILE_BYTES // 1_000_000} MB"
        except OSError as error:
            why = f"{error.strerror or error}. Make room for temporary files where the controller runs"
        self._upload = path
        if self._file.is_deleted:  # the page was closed
            self._forget()
            return
        if why:
            self._forget()
            self._file.text = ""
            complain(f"{given} cannot be used: {why}.")
            return
        self._file.text = f"{given} is here: {event.file.size():,} bytes."

    def _forget(self) -> None:
        if self._upload:
            self._upload.unlink(missing_ok=True)
        self._upload = None

    async def submit(self) -> None:
        pasted = str(self._pasted.value or "").strip()
        if bool(pasted) == bool(self._upload):
            complain(
                "Give items: paste them or upload a file; not both." if pasted else "Paste items, or upload a file."
            )
            return
        priority, most = self._priority.value or 0, self._most.value
        if not abs(priority) <= MOST_NUMBER or priority % 1:
            complain(f"A priority is a whole number from -{MOST_NUMBER:,} to {MOST_NUMBER:,}.")
            return
        if most is not None and (not 1 <= most <= MOST_NUMBER or most % 1):
            complain(f"At most so many items: give a whole number from 1 to {MOST_NUMBER:,}, or nothing.")
            return
        wanted = Submission(
            spider=str(self._spider.value),
            arguments=self._arguments.given,
            kind=str(self._kind.value or ""),
            priority=int(priority),
            max_items=None if most is None else int(most),
            name=str(self._name.value or "").strip(),
            idempotency_key=self._key,
        )
        self._button.set("disabled", True)
        self._button.text = "Items are being read ..."
        try:
            submitted = await self._room.act("submit_job", "/submit", lambda: self._submit(wanted, pasted))
        finally:
            self._button.set("disabled", False)
            self._button.text = "Submit"
        if submitted:
            self._say(submitted)

    async def _submit(self, wanted: Submission, pasted: str) -> Submitted:
        jobs = self._room.here.jobs
        if self._upload:
            with opened(str(self._upload)) as file:
                return await jobs.submit_upload(wanted, file, Input(self._upload_name))
        lines = BufferedReader(cast(Any, BytesIO(f"{pasted}\n".encode())))
        return await jobs.submit_upload(wanted, lines, Input("that was pasted", self._form.value or None))

    def _say(self, submitted: Submitted) -> None:
        self._answer.clear()
        with self._answer, Tag("div", classes="card"):
            if submitted.job is None:
                Tag("h2", "There is no line that can be used, so there is no job.")
            else:
                self._key = secrets.token_hex(16)
                known = f", {submitted.known:,} known before" if submitted.known else ""
                bad = f", {counted(submitted.bad, 'line')} left out" if submitted.bad else ""
                Tag("h2", f"{counted(submitted.accepted, 'item')} accepted{known}{bad}.")
                with Tag("p"):
                    Tag("a", f"To the job {submitted.job}", href=address("jobs", submitted.job))
            if submitted.bad_lines:
                bad_lines = RowsTable("Lines that cannot be used", ("+line", "text", "reason"), "")
                bad_lines.show(
                    [
                        TableRow(str(n), [each.line, each.text, each.reason])
                        for n, each in enumerate(submitted.bad_lines)
                    ]
                )
            if submitted.bad_file:
                Tag("p", f"All of these lines, with the reasons: {submitted.bad_file}", "faint")
        if submitted.job and not submitted.bad:
            ui.navigate.to(address("jobs", submitted.job))


def _decompress(path: Path) -> bool:
    """Decompresses a file in place, with owner-only permissions. Returns False for an invalid or too large file."""
    descriptor, beside = tempfile.mkstemp(prefix=f"{path.name}-", dir=path.parent)
    whole, left = Path(beside), MOST_FILE_BYTES
    try:
        with os.fdopen(descriptor, "wb") as file, gzip.open(path) as packed:
            while piece := packed.read(min(PIECE_BYTES, left + 1)):
                left -= len(piece)
                if left < 0:
                    return False
                file.write(piece)
        whole.replace(path)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False
    finally:
        whole.unlink(missing_ok=True)
    return True


def _not_taken(event: events.GenericEventArguments) -> None:
    status, said = event.args
    if status not in (401, 403):  # these responses contain a message for people
        said = f"the controller answers HTTP {status}." if status else "the connection was lost. Upload it again."
    complain(f"The file was not taken: {said}")


def _too_large() -> None:
    complain(f"The file is larger than {MOST_FILE_BYTES // 1_000_000} MB: use harvester jobs submit.")
