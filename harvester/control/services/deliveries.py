"""Publishing: the state and backlog of the receivers, and resending the events that a receiver did not take."""

import asyncio
from dataclasses import dataclass

from harvester.control.services.action_result import ActionResult
from harvester.formatting import counted
from harvester.jobs.service import JobService
from harvester.publish import admin
from harvester.publish.admin import PublishStatus
from harvester.publish.sinks import Sinks, configured_sinks, project_sinks


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """How publishing stands."""

    configured: bool
    """True if HARVESTER_PUBLISH_FILE names receivers."""
    status: PublishStatus


class Deliveries:
    """Deliveries to the receivers of HARVESTER_PUBLISH_FILE."""

    def __init__(self, service: JobService) -> None:
        self._config = service.config
        self._database = service.database

    async def status(self) -> DeliveryStatus:
        """Returns the state of all receivers, including those that are no longer in the file.

        Raises UsageError for a bad file.
        """
        sinks = await asyncio.to_thread(project_sinks, self._config)
        status = await admin.status(self._database, sinks or Sinks((), ""))
        return DeliveryStatus(sinks is not None, status)

    async def resume(self, sink: str) -> ActionResult:
        """Retries a receiver that fails or was set aside at once. Raises UnknownSink for an unknown receiver."""
        one = (await self._sinks()).named(sink)
        waiting = await admin.resume(self._database, one)
        return ActionResult(waiting, f"{sink} is tried again; {counted(waiting, 'event waits', 'events wait')} for it.")

    async def replay_dead(self, sink: str, expect: int) -> ActionResult:
        """Resends the dead events of a receiver, if there are at most `expect`.

        Raises UnknownSink for an unknown receiver, JobConflict when there are more.
        """
        one = (await self._sinks()).named(sink)
        number = await admin.replay_dead(self._database, one, expect)
        return ActionResult(number, f"{counted(number, 'event waits', 'events wait')} for {sink} again.")

    async def _sinks(self) -> Sinks:
        return await asyncio.to_thread(configured_sinks, self._config)
