"""Publishes events to an exchange of an AMQP 0-9-1 broker such as RabbitMQ, and waits for its confirms.

After any failure its connection is closed, and the events in flight are sent again on a new one. So two events with one
id never share a channel: aio-pika uses the id to match returned events.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import cast

import aio_pika
from aio_pika import DeliveryMode, ExchangeType
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPError, DeliveryError, PublishError
from aiormq import Channel, spec

from harvester.publish.events import MEDIA_TYPE, Event
from harvester.publish.faults import describe_fault
from harvester.publish.sending import SendFailure
from harvester.publish.sinks import AmqpSink

logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # it logs every exception, at each try

_FORESEEN = (AMQPError, OSError, RuntimeError, ValueError)
"""RuntimeError: aiormq raises it when a connection is closed in use. ValueError: for a wrong option in the address.

It raises others too: a bare Exception when the broker leaves at once, a KeyError when it does not list its abilities.
"""

_LOST = SendFailure("the connection to the broker was lost"), True
"""The result of a publish that aiormq cancels because it closes the channel."""


class AmqpSender:
    """Confirms an event when the broker has it on disk, in every queue that the exchange routes it to."""

    BATCH = 1000
    WINDOW = 300
    """Events that wait for a confirm at the same time. Confirms come in groups, after a write to the disk."""

    def __init__(self, sink: AmqpSink) -> None:
        self._sink = sink
        self._connection: AbstractConnection | None = None
        self._channel: Channel | None = None

    async def send(self, events: Sequence[Event]) -> list[SendFailure | None]:
        try:
            async with asyncio.timeout(self._sink.timeout_s):
                channel = self._channel or await self._open()
        except Exception as error:  # noqa: BLE001  see _FORESEEN
            await self.close()
            return [SendFailure(_said(error))] * len(events)
        window = asyncio.Semaphore(self.WINDOW)
        publishing = [asyncio.create_task(self._publish(channel, event, window)) for event in events]
        ended = await asyncio.gather(*publishing, return_exceptions=True)
        results = []
        for each in ended:
            if isinstance(each, BaseException) and not isinstance(each, asyncio.CancelledError):
                raise each
            results.append(_LOST if isinstance(each, BaseException) else each)
        if any(is_broken for _, is_broken in results):
            await self.close()
        return [failure for failure, _ in results]

    async def close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self._sink.timeout_s):
                    await connection.close()

    async def _open(self) -> Channel:
        self._connection = await aio_pika.connect(
            self._sink.address(), client_properties={"connection_name": "harvester"}
        )
        channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        await channel.declare_exchange(self._sink.exchange, ExchangeType.TOPIC, durable=True)
        self._channel = cast(Channel, await channel.get_underlay_channel())
        return self._channel

    async def _publish(
        self, channel: Channel, event: Event, window: asyncio.Semaphore
    ) -> tuple[SendFailure | None, bool]:
        """Returns the failure without a confirm, and True if the connection must be closed."""
        properties = spec.Basic.Properties(
            delivery_mode=DeliveryMode.PERSISTENT,
            content_type=MEDIA_TYPE,
            message_id=event.id,
            message_type=event.type,
            app_id="harvester",
        )
        try:
            async with window:
                await channel.basic_publish(
                    event.body,
                    exchange=self._sink.exchange,
                    routing_key=event.topic,
                    properties=properties,
                    mandatory=True,
                    timeout=self._sink.timeout_s,
                    wait=False,  # aio-pika's own publish makes the others wait until each is in the socket
                )
        except PublishError:  # the broker returned it; without `mandatory` it would be confirmed and lost
            return SendFailure(f"no queue is bound to the exchange {self._sink.exchange} for {event.topic}"), False
        except DeliveryError:
            return SendFailure("the broker refused it: its queue is full, or has a fault"), False
        except Exception as error:  # noqa: BLE001  see _FORESEEN
            return SendFailure(_said(error)), True
        return None, False


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the broker did not answer in time"
    if not isinstance(error, _FORESEEN):
        return f"the connection to the broker failed: {type(error).__name__}, {describe_fault(error)}"
    return describe_fault(error)
