"""Every exception that harvester raises on purpose, with the exit code of a run that it ends."""

FAULT = 1
"""Exit code after an exception that nobody foresaw."""
UNMET = 6
"""Exit code of what was done, and is not as it should be: of a run, its monitors failed."""
LEFT = 7
"""Exit code of what is not complete: a service refuses or cannot be reached, or what is left waits for its time."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells use it."""
TERMINATED = 143
"""Exit code after SIGTERM, as shells use it."""


class HarvesterError(Exception):
    """The base of all. Its text is a sentence for the person at the terminal: what is wrong and what to do."""

    exit_code = FAULT

    @property
    def finish_reason(self) -> str:
        """Its name in snake case, for a run that it ends."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in type(self).__name__).strip("_")


class UsageError(HarvesterError):
    """Arguments, seeds or settings that cannot be used. Raised before anything is fetched."""

    exit_code = 2


class NotAccepted(UsageError):
    """Nobody has accepted the terms that a site shows first. Raised by spiders of such sites, and by logins."""


class UnknownJob(UsageError):
    """There is no such job, or no such item of it. Raised by harvester.jobs."""


class UnknownWebhook(UsageError):
    """There is no such webhook. Raised by harvester.control."""


class UnknownSink(UsageError):
    """There is no such receiver of events. Raised by harvester.publish."""


class UnknownRun(UsageError):
    """There is no such run. Raised by harvester.monitors."""


class UnknownRecord(UsageError):
    """There is no such collection of records, record or file of one. Raised by harvester.control."""


class JobConflict(UsageError):
    """A job is not in a state for what is wanted, or an idempotency key is another's. Raised by harvester.jobs."""


class ServiceError(HarvesterError):
    """A server that harvester needs (MongoDB, Redis) is not there and cannot be started. Raised by stores."""

    exit_code = 3


class ServerAway(ServiceError):
    """A server is gone, or cannot be reached, and may come back. Raised by stores."""


class StateGone(ServiceError):
    """The folder of a private server was removed while it ran. Raised by stores; another server is none for it."""


class StorageError(HarvesterError):
    """Records, files or state cannot be written: no room, no permission. Raised by the pipelines."""

    exit_code = 4


class FileError(HarvesterError):
    """A picture or document that is not stored. Raised by what reads it and by the files pipeline, which counts it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class SessionError(HarvesterError):
    """A login was refused, or cannot be kept. Raised by the rooms identities and middlewares."""

    exit_code = 5


class ProxyError(HarvesterError):
    """A site's proxies let nobody in, or there are none such as its entry wants. Raised by the proxy middleware."""

    exit_code = 5


class DeployError(HarvesterError):
    """Scrapyd cannot run what was deployed. Raised by `harvester deploy`, after it took the version back."""

    exit_code = 8


class FrontierLost(HarvesterError):
    """Redis has forgotten requests that were to be fetched. Raised by the frontier; the job cannot be whole then."""

    exit_code = 9

    def __init__(self, said: str, *, heals: bool = False) -> None:
        super().__init__(said)
        self.heals = heals
        """Whether the same command, run once more, makes it good."""


class ParseError(HarvesterError):
    """An answer is not what its address promises. Raised by parsers; the outcome is then layout_changed."""


class FetchError(HarvesterError):
    """A request came to nothing, as any may: it has an outcome, and is no fault of the program or the machine."""


class NavigationError(FetchError):
    """A browser did not come to the page, or could not do a step on it. Raised by rooms of harvester.browser."""


class LocalFault(FetchError):
    """This machine could not ask. Raised by the download handler; the outcome is then local, and counts for nothing."""

    def __init__(self, reason: str, *, counts: bool = False) -> None:
        super().__init__(reason)
        self.counts = counts
        """Whether it counts for the request: the machine is well for others, so that it must not wait for ever."""

    @classmethod
    def behind(cls, error: BaseException) -> "LocalFault | None":
        """The fault for which a request failed with this exception; None when it was none of this machine."""
        fault = getattr(error, "local_fault", error)  # the download handler writes it into what Scrapy raises
        return fault if isinstance(fault, cls) else None


class BrowserLost(HarvesterError):
    """The browser ended under a page, which is to be rendered by the next one. Raised by harvester.browser."""


class NotStoredError(FetchError):
    """Records of a page were neither stored nor rejected. Made by the scheduler; the outcome is then not_stored."""


class AddressError(FetchError, ValueError):
    """No server can be at an address. Raised by the address middleware; the outcome is then invalid."""


class RedirectError(FetchError):
    """A redirect that is not followed: a loop, too many of them, or no address. Raised by the redirect middleware."""


class DecodingError(FetchError):
    """An answer is not compressed as its headers say. Raised by the compression middleware; the outcome is network."""


class InvalidRecordError(HarvesterError, ValueError):
    """A record breaks a rule of its type. Raised where it is constructed; the validate pipeline rejects it."""


class PageFailed(HarvesterError):
    """A page that was fetched well is not what was hoped for. Raised by callbacks and parsers that know what it is:

    `raise PageFailed("empty", "no parcel has this number")`. The outcome's policy then says what follows.
    """

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class TooCostlyError(PageFailed):
    """Something takes more time or memory to be read than it may. Raised by harvester.bounded; the outcome is invalid.

    So what somebody gives that is too costly is no failure of the program, whoever gives it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__("invalid", reason)


class NoProcessError(TooCostlyError):
    """Nothing can be read apart, since this machine starts no process. Raised by harvester.bounded.

    The outcome is `local`: the page is not to blame.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.outcome = "local"
