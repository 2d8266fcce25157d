"""Log lines about pages, items and errors. How they look in a crawl: see test_live."""

import logging
from datetime import UTC, datetime
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.log import logformatter_adapter
from twisted.python.failure import Failure

from harvester.dashboard.logformatter import QuietLogFormatter, _is_news
from harvester.exceptions import StorageError
from harvester.items import Batch, Provenance
from harvester.items.bluesky import Follow, Profile

FORMATTER = QuietLogFormatter()
SPIDER = Spider("x")
RESPONSE = Response("https://api.example/page")
PROVENANCE = Provenance("https://user:secret@api.example/page", datetime.now(UTC), "x", "x-1")
BATCH = Batch(
    [
        Profile(did="did:plc:a", handle="a.example", provenance=PROVENANCE, raw=b"BODY"),
        Follow(did="did:plc:a", subject_did="did:plc:b", provenance=PROVENANCE, raw=b"BODY"),
    ],
)


def text(result: Any) -> tuple[int, str]:
    level, message, args = logformatter_adapter(result)
    return level, message % args


def test_what_went_well_is_not_logged() -> None:
    assert FORMATTER.crawled(Request(RESPONSE.url), RESPONSE, SPIDER) is None
    assert FORMATTER.scraped(BATCH, RESPONSE, SPIDER) is None


def test_an_item_that_could_not_be_kept_is_named_without_its_content() -> None:
    level, said = text(FORMATTER.item_error(BATCH, StorageError("disk\nfull"), RESPONSE, SPIDER))
    assert level == logging.ERROR
    for named in ("2 records (follow, profile)", "https://api.example/page: disk full"):
        assert named in said
    assert ("BODY" in said, "secret" in said) == (False, False)
    _, said = text(FORMATTER.item_error({"body": "BODY"}, KeyError("x"), RESPONSE, SPIDER))
    assert ("dict: KeyError: 'x'" in said, "BODY" in said) == (True, False)


def test_a_dropped_item_is_only_for_debugging() -> None:
    level, said = text(FORMATTER.dropped(BATCH.records[0], ValueError("twice"), RESPONSE, SPIDER))
    assert level == logging.DEBUG
    for named in ("1 record (profile)", "https://api.example/page: twice"):
        assert named in said


def _fail() -> None:
    raise RuntimeError("lost redis://:pw@cache.example/0 " + "x" * 5000)


def test_errors_of_pages_are_one_line_with_their_place_in_our_code() -> None:
    try:
        _fail()
    except RuntimeError:
        failure = Failure()  # type: ignore[no-untyped-call]
    request = Request("https://user:pw@api.example/page")
    for result in (
        FORMATTER.spider_error(failure, request, RESPONSE, SPIDER),
        FORMATTER.download_error(failure, request, SPIDER),
    ):
        level, said = text(result)
        assert level == logging.ERROR
        assert "https://api.example/page: RuntimeError: lost redis://cache.example/0 xxx" in said
        assert "pw" not in said
        assert "(in _fail, " in said
        assert len(said) < 700


def test_what_comes_with_every_run_is_not_logged_and_errors_of_monitors_are() -> None:
    def passes(level: int, message: str) -> bool:
        return _is_news(logging.LogRecord("x", level, "x.py", 1, message, None, None))

    assert not passes(logging.INFO, "[Spidermon] Finish reason/runTest... OK")
    assert not passes(logging.ERROR, "[Spidermon] \n=====\nFAIL: Required fields/runTest")
    assert passes(logging.ERROR, "[Spidermon] \n=====\nERROR: SendAlerts")
    assert passes(logging.INFO, "Continuing the crawl x")
