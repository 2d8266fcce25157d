"""Chooses the sender for a sink."""

from harvester.config import Config
from harvester.publish.redis_stream import RedisSender
from harvester.publish.sending import Sender
from harvester.publish.sinks import AnySink, RedisSink, WebhookSink
from harvester.publish.webhook import WebhookSender


def sender_of(sink: AnySink, config: Config) -> Sender:
    """Returns the sender, which connects when it sends first."""
    if isinstance(sink, RedisSink):
        return RedisSender(sink, config)
    if isinstance(sink, WebhookSink):
        return WebhookSender(sink, config)
    from harvester.publish.amqp import AmqpSender  # its library is an extra

    return AmqpSender(sink)
