"""Item pipeline: texts are cleaned for people and models, beside the untouched original."""

from msgspec.structs import replace

from harvester.items import Batch, Record
from harvester.pipelines.base import BatchPipeline
from harvester.text import clean_text


class CleanPipeline(BatchPipeline):
    """Fills the fields that `Record.CLEANED` names. Texts that were quoted are left as they are."""

    async def process_batch(self, batch: Batch) -> Batch:
        return batch._replace(records=[self.process_record(record) for record in batch.records])

    def process_record(self, record: Record) -> Record:
        cleaned = {
            clean: clean_text(text)
            for name, clean in record.CLEANED.items()
            if (text := getattr(record, name)) is not None
        }
        return replace(record, **cleaned) if cleaned else record
