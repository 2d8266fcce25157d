"""Webhooks: receivers of events about jobs that are paused or end."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from harvester.control.auth import OPERATES, READS
from harvester.control.context import Here
from harvester.control.problems import documented
from harvester.control.webhooks import AddedWebhook, Webhook, Webhooks

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

WebhookId = Annotated[str, Path(max_length=200, description="Id of the webhook.")]


class NewWebhook(BaseModel):
    """A webhook that is to be."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(max_length=8192, description="Address that is posted each event.")
    job: str = Field("", max_length=200, description="The only job that it is told of; empty: all.")
    spider: str = Field("", max_length=200, description="The spider of whose jobs it is told; empty: of all.")


@dataclass(frozen=True, slots=True)
class Tested:
    """What came of a test."""

    confirmed: bool
    said: str
    """The error; empty if the receiver confirmed it."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Events that are tried again."""

    waiting: int


@router.get("", operation_id="list_webhooks", dependencies=[READS])
async def list_webhooks(here: Here) -> list[Webhook]:
    """All, the oldest first, and how each stands."""
    return await Webhooks(here.jobs).all()


@router.post("", operation_id="add_webhook", status_code=201, dependencies=[OPERATES], responses=documented(404, 507))
async def add_webhook(here: Here, new: NewWebhook) -> AddedWebhook:
    """Tells an address of jobs that are paused or end, signed by the answer's secret. Added again, it is the same."""
    return await Webhooks(here.jobs).add(new.url, new.job, new.spider)


@router.post("/{webhook}/test", operation_id="test_webhook", dependencies=[OPERATES], responses=documented(404, 507))
async def test_webhook(here: Here, webhook: WebhookId) -> Tested:
    """Sends an event that says it is a test, once."""
    said = await Webhooks(here.jobs).test(webhook)
    return Tested(not said, said)


@router.post("/{webhook}/resume", operation_id="resume_webhook", dependencies=[OPERATES], responses=documented(404))
async def resume_webhook(here: Here, webhook: WebhookId) -> Resumed:
    """Tries at once what it has not confirmed, also when it was set aside."""
    return Resumed(await Webhooks(here.jobs).resume(webhook))


@router.delete(
    "/{webhook}", operation_id="remove_webhook", status_code=204, dependencies=[OPERATES], responses=documented(404)
)
async def remove_webhook(here: Here, webhook: WebhookId) -> None:
    """Tells it nothing more, also not what it was not told yet."""
    await Webhooks(here.jobs).remove(webhook)
