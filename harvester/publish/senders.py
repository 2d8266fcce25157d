"""Which sender speaks to which kind of sink."""

from harvester.config import Config
from harvester.publish.redis_stream import RedisSender
from harvester.publish.sending import Sender
from harvester.publish.sinks import AnySink, RedisSink
from harvester.publish.webhook import WebhookSender


def sender_of(sink: AnySink, config: Config) -> Sender:
    """It connects when it sends."""
    return RedisSender(sink, config) if isinstance(sink, RedisSink) else WebhookSender(sink, config)
