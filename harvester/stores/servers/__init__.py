"""The servers that harvester needs: the configured ones, or private ones that start with their first user.

All processes of the project share one private MongoDB and one private Redis (Valkey) below `state_dir`. A supervisor
process owns each server. Every user holds a loopback connection to it, so the kernel reports the end of a user, even of
a killed one. After the last user has left, the supervisor stops the server. The data stays on disk.
"""

from typing import TYPE_CHECKING

from harvester.stores.servers import membership
from harvester.stores.servers.kinds import MongoDB, Redis

if TYPE_CHECKING:  # the supervisor imports this package too, and should stay small
    from harvester.config import Config


def mongodb_uri(config: "Config") -> str:
    """Returns the address of the configured MongoDB, or of the private one, which is started if it does not run.

    Blocks until the server answers (about a second if it must be started). From then on this process counts as a user
    until it ends. Call it again whenever the server cannot be reached: if the private server died together with its
    supervisor, it is started again, on the same port unless that is taken. Threads may call it; a forked child counts
    as a user after its own call. Raises ServiceError.
    """
    if config.mongodb_uri:
        return config.mongodb_uri.get_secret_value()
    return membership.join(MongoDB(), config.state_dir)


def has_mongodb(config: "Config") -> bool:
    """True if there is a server already: a configured one, or a private one with data."""
    return bool(config.mongodb_uri) or (config.state_dir / MongoDB.name / "data").is_dir()


def redis_url(config: "Config") -> str:
    """Returns the address of the configured Redis, or of the private one. See `mongodb_uri`."""
    if config.redis_url:
        return config.redis_url.get_secret_value()
    return membership.join(Redis(), config.state_dir)


def leave() -> None:
    """Ends the use of the private servers by this process, as the end of the process does."""
    membership.leave_all()
