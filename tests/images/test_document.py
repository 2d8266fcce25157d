"""Which bytes are a PDF, and what is read of it."""

import hashlib
import sys
from collections.abc import Iterator
from io import BytesIO

import pytest
from pypdf import PdfWriter

from harvester.exceptions import FileError
from harvester.parsers import pdf as parser
from harvester.pipelines import document
from harvester.pipelines.document import DocumentReader
from harvester.sandbox.pdf import pdf

BILL = pdf(["Tax bill 2025", "Parcel 000-001  A0", "Owner (s): MÜLLER\0"], ["Page 2"])
TEXT = "Tax bill 2025\nParcel 000-001  A0\nOwner (s): MÜLLER\nPage 2"


def encrypted(password: str) -> bytes:
    writer, buffer = PdfWriter(clone_from=BytesIO(BILL)), BytesIO()
    writer.encrypt(password, "the county's own")
    writer.write(buffer)
    return buffer.getvalue()


@pytest.fixture
def reader() -> Iterator[DocumentReader]:
    reader = DocumentReader()
    yield reader
    reader.close()


def test_text_pages_size_and_digest_of_a_document_are_known(reader: DocumentReader) -> None:
    for _ in range(2):
        found = reader.read(BILL)
        assert (found.text, found.pages, found.problem) == (TEXT, 2, None)
        assert (found.size, found.sha256) == (len(BILL), hashlib.sha256(BILL).hexdigest())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(BILL[: len(BILL) // 2], "truncated: ", id="truncated"),
        pytest.param(encrypted("secret"), "encrypted: ", id="encrypted"),
        pytest.param(b"%PDF-1.4\nnothing\n%%EOF\n", "damaged: PdfReadError: ", id="damaged"),
        pytest.param(BILL.replace(b"/Kids[4 0 R", b"/Kids[2 0 R"), "damaged: ", id="a page that is all pages"),
    ],
)
def test_a_document_that_cannot_be_read_is_one_with_a_problem(body: bytes, problem: str) -> None:
    assert (parser.read_pdf(body).problem or "").startswith(problem)


def test_a_document_that_wants_no_password_to_be_read_is_read() -> None:
    assert parser.read_pdf(encrypted("")).text == TEXT


def test_of_a_long_text_the_beginning_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MOST_TEXT", 10)
    found = parser.read_pdf(BILL)
    assert (found.text, (found.problem or "").partition(":")[0]) == ("Tax bill 2", "too_long")


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"", "empty"), (b"<html><p>Please log in</p></html>", "not_a_pdf"), (b"\x89PNG\r\n\x1a\n", "not_a_pdf")],
)
def test_what_is_no_pdf_is_no_document(reader: DocumentReader, body: bytes, reason: str) -> None:
    with pytest.raises(FileError) as raised:
        reader.read(body)
    assert raised.value.reason == reason


def test_a_document_is_not_to_blame_for_a_process_that_was_killed_before_it(reader: DocumentReader) -> None:
    assert reader.read(BILL).text == TEXT
    process = reader._process._process
    assert process
    process.kill()
    process.wait()
    assert (reader.read(BILL).text, reader.read(BILL).problem) == (TEXT, None)


def test_a_document_is_not_to_blame_for_a_machine_that_can_start_no_process(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        found = reader.read(BILL)
        assert (found.problem or "").startswith("not_read: ")
        assert found.sha256
    assert reader.read(BILL).text == TEXT


def test_a_document_that_costs_too_much_is_kept_unread_and_the_next_one_is_read(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = pdf(["A line"] * 100_000)
    with monkeypatch.context() as patched:
        patched.setattr(document, "BOUNDS", document.BOUNDS._replace(cpu_s=0.2))
        found = reader.read(body)
    assert (found.problem or "").startswith("too_costly: ")
    assert found.size == len(body)
    assert reader.read(BILL).text == TEXT


def test_without_the_package_a_document_says_how_its_text_is_had(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "find_spec", lambda name: None)
    found = DocumentReader().read(BILL)
    assert (found.size, found.text) == (len(BILL), None)
    assert (found.problem or "").endswith("pip install 'harvester[pdf]'")
