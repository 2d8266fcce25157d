"""Every exception that harvester raises on purpose."""


class HarvesterError(Exception):
    """The base of all. Its text is a sentence for the person at the terminal: what is wrong and what to do."""

    exit_code = 1

    @property
    def finish_reason(self) -> str:
        """Its name in snake case, for a run that it ends."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in type(self).__name__).strip("_")


class UsageError(HarvesterError):
    """Arguments, seeds or settings that cannot be used. Raised before anything is fetched."""

    exit_code = 2


class ServiceError(HarvesterError):
    """A server that harvester needs (MongoDB, Redis) is not there and cannot be started. Raised by services."""

    exit_code = 3


class StorageError(HarvesterError):
    """Records, images or state cannot be written: no room, no permission. Raised by the pipelines."""

    exit_code = 4


class SessionError(HarvesterError):
    """A login was refused, or cannot be kept. Raised by the session middleware."""

    exit_code = 5


class DeployError(HarvesterError):
    """Scrapyd cannot run what was deployed. Raised by `harvester deploy`, after it took the version back."""

    exit_code = 8


class ParseError(HarvesterError):
    """An answer is not what its address promises. Raised by parsers; the outcome is then layout_changed."""


class InvalidRecordError(HarvesterError, ValueError):
    """A record breaks a rule of its type. Raised where it is constructed; the validate pipeline rejects it."""
