"""Item pipeline: adds a cleaned text for people and models beside the original."""

from collections.abc import Callable
from functools import cached_property, partial

from msgspec.structs import force_setattr
from scrapy.crawler import Crawler

from harvester.config import load_config
from harvester.items import Record
from harvester.items.base import is_longer
from harvester.pipelines.base import BatchPipeline


class CleanPipeline(BatchPipeline):
    """Fills the fields that `Record.CLEANED` names. Quoted texts stay unchanged.

    A text that is too long is not cleaned, since that would block everything else; the next pipeline rejects it.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._markup = load_config().remove_markup

    def process_record(self, record: Record) -> Record:
        for name, clean in record.CLEANED.items():
            text = getattr(record, name)
            if text is not None and not is_longer(text, record.MOST_TEXT_BYTES):
                # In place: a copy would validate the record again, and no other code holds it yet.
                force_setattr(record, clean, self._clean(text))
        return record

    @cached_property
    def _clean(self) -> Callable[[str], str]:
        from harvester.pipelines.text import clean_text  # it builds large patterns, and most projects clean no text

        return partial(clean_text, markup=self._markup)
