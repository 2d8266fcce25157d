"""The servers that harvester needs: the configured ones, or private ones that start with their first user.

All processes of the project share one private MongoDB and one private Redis (Valkey) below `state_dir`.
A supervisor process owns each server; every user holds a loopback connection to it, so the kernel tells it
when a user has ended, however it ended. After the last one it stops the server. The data stays on disk.
"""

from typing import TYPE_CHECKING

from harvester.stores.servers import membership
from harvester.stores.servers.kinds import MongoDB, Redis

if TYPE_CHECKING:  # the supervisor imports this package too, and should stay small
    from harvester.config import Config


def mongodb_uri(config: "Config") -> str:
    """Address of the configured MongoDB, or of the private one, which is started unless it runs.

    Blocks until the server answers (about a second when it has to be started). From then on this process
    counts as a user until it ends. Call it again whenever the server cannot be reached: should the private
    one have died together with its supervisor, it is started again, on the same port unless that is taken.
    Threads may call it; a forked child counts as a user once it calls it itself. Raises ServiceError.
    """
    if config.mongodb_uri:
        return config.mongodb_uri.get_secret_value()
    return membership.join(MongoDB(), config.state_dir)


def has_mongodb(config: "Config") -> bool:
    """Whether there is one already: a configured one, or a private one with data."""
    return bool(config.mongodb_uri) or (config.state_dir / MongoDB.name / "data").is_dir()


def redis_url(config: "Config") -> str:
    """Address of the configured Redis, or of the private one; otherwise as `mongodb_uri`."""
    if config.redis_url:
        return config.redis_url.get_secret_value()
    return membership.join(Redis(), config.state_dir)


def leave() -> None:
    """This process uses the private servers no more. The end of the process does the same."""
    membership.leave_all()
