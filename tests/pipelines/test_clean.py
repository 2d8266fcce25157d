"""The clean pipeline fills the fields for cleaned texts, and nothing else."""

import pytest
from msgspec.structs import replace

from harvester.items import Batch, Record
from harvester.items.bluesky import Post
from harvester.pipelines.clean import CleanPipeline
from tests.numbers import numbers_of
from tests.pipelines.records import crawler, follow, post, profile


async def test_cleaned_texts_stand_beside_the_untouched_originals() -> None:
    records: list[Record] = [
        post(text="**Tom** &amp; Jerry"),
        profile(display_name="A\u200blice", description=None),
        follow(),
    ]
    batch = await CleanPipeline(crawler()).process_item(Batch(records))
    assert batch.records == [
        replace(records[0], text_clean="Tom & Jerry"),
        replace(records[1], display_name_clean="Alice"),
        records[2],
    ]


async def test_a_text_without_words_has_an_empty_cleaned_form() -> None:
    batch = await CleanPipeline(crawler()).process_item(Batch([post(text=""), post(text="\u200b")]))
    assert [record.text_clean for record in batch.records] == ["", ""]


async def test_a_text_that_is_too_long_for_its_record_is_rejected_without_being_cleaned() -> None:
    """To clean 30 MB of a feed takes many seconds, in which a worker does nothing else."""
    most = Post.MOST_TEXT_BYTES
    texts = ["é" * (most // 2), "é" * (most // 2) + "x"]
    batch = await CleanPipeline(crawler()).process_item(Batch([post(text=text) for text in texts]))
    assert [record.text_clean for record in batch.records] == [texts[0], None]
    assert [record.problem() and numbers_of(record.problem() or "") for record in batch.records] == [None, [most]]


@pytest.mark.parametrize(("said", "cleaned"), [("meant", "bold vector<p>"), ("all", "bold vector"), ("none", "")])
async def test_the_configuration_says_what_of_markup_is_removed(
    said: str, cleaned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "**bold** vector<p>"
    monkeypatch.setenv("HARVESTER_REMOVE_MARKUP", said)
    batch = await CleanPipeline(crawler()).process_item(Batch([post(text=text)]))
    assert [record.text_clean for record in batch.records] == [cleaned or text]
