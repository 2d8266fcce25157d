"""Every exception that harvester raises on purpose, with the exit code of a run that it ends."""

FAULT = 1
"""Exit code after an unexpected exception."""
UNMET = 6
"""Exit code of a complete run with a bad result: its monitors failed."""
LEFT = 7
"""Exit code of an incomplete run: a service refuses or cannot be reached, or the remaining work has to wait."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells use it."""
TERMINATED = 143
"""Exit code after SIGTERM, as shells use it."""


class HarvesterError(Exception):
    """The base of all. Its text is a sentence for the person at the terminal: the problem and the remedy."""

    exit_code = FAULT

    @property
    def finish_reason(self) -> str:
        """The class name in snake case, for a run that the exception ends."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in type(self).__name__).strip("_")


class UsageError(HarvesterError):
    """Arguments, seeds or settings that cannot be used. Raised before anything is fetched."""

    exit_code = 2


class NotAccepted(UsageError):
    """The terms that a site shows first are not accepted. Raised by spiders of such sites, and by logins."""


class UnknownJob(UsageError):
    """A job, or one item in it, does not exist. Raised by harvester.jobs."""


class UnknownWebhook(UsageError):
    """A webhook does not exist. Raised by harvester.control."""


class UnknownSink(UsageError):
    """A receiver of events does not exist. Raised by harvester.publish."""


class UnknownRun(UsageError):
    """A run does not exist. Raised by harvester.monitors."""


class UnknownRecord(UsageError):
    """A collection of records, a record or its file does not exist. Raised by harvester.control."""


class JobConflict(UsageError):
    """A job's state does not allow the operation, or another job has the idempotency key. Raised by harvester.jobs."""


class ServiceError(HarvesterError):
    """A server that harvester needs (MongoDB, Redis) is not available and cannot be started. Raised by stores."""

    exit_code = 3


class ServerAway(ServiceError):
    """A server is down, or cannot be reached, and may come back. Raised by stores."""


class StateGone(ServiceError):
    """The folder of a private server was removed while it ran. Raised by stores; another server cannot replace it."""


class StorageError(HarvesterError):
    """Records, files or state cannot be written: disk full, no permission. Raised by the pipelines."""

    exit_code = 4


class FileError(HarvesterError):
    """An image or document that is not stored. Raised by its reader and by the files pipeline, which counts it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class SessionError(HarvesterError):
    """A login was refused, or cannot be saved. Raised by identities and middlewares."""

    exit_code = 5


class ProxyError(HarvesterError):
    """A site's proxies refuse us, or its entry wants proxies that do not exist. Raised by the proxy middleware."""

    exit_code = 5


class DeployError(HarvesterError):
    """Scrapyd cannot run the deployed version. Raised by `harvester deploy`, after it removed the version."""

    exit_code = 8


class FrontierLost(HarvesterError):
    """Redis has forgotten queued requests. Raised by the frontier; the job cannot be complete then."""

    exit_code = 9

    def __init__(self, said: str, *, heals: bool = False) -> None:
        super().__init__(said)
        self.heals = heals
        """True if running the same command once more repairs the loss."""


class ParseError(HarvesterError):
    """A response has unexpected content. Raised by parsers; the outcome is then layout_changed."""


class FetchError(HarvesterError):
    """A request failed, as any may: it has an outcome, and neither the program nor the machine is at fault."""


class NavigationError(FetchError):
    """A browser did not reach the page, or could not do a step on it. Raised by harvester.browser."""


class LocalFault(FetchError):
    """This machine could not send a request. Raised by the download handler; the outcome `local` spends no attempt."""

    def __init__(self, reason: str, *, counts: bool = False) -> None:
        super().__init__(reason)
        self.counts = counts
        """True if it spends an attempt: the machine works for other requests, and this one must not wait for ever."""

    @classmethod
    def behind(cls, error: BaseException) -> "LocalFault | None":
        """Returns the local fault that caused this exception; None if the machine had no fault."""
        fault = getattr(error, "local_fault", error)  # the download handler writes it into Scrapy's exceptions
        return fault if isinstance(fault, cls) else None


def copy_error(error: Exception) -> Exception:
    """Copies an exception for one request, since the verdict on a request is written into it."""
    again = type(error)(*error.args)
    if fault := LocalFault.behind(error):
        again.local_fault = fault  # type: ignore[attr-defined]
    return again


class BrowserLost(HarvesterError):
    """The browser crashed while it showed a page, which the next browser renders. Raised by harvester.browser."""


class NotStoredError(FetchError):
    """Records of a page were neither stored nor rejected. Made by the scheduler; the outcome is then not_stored."""


class AddressError(FetchError, ValueError):
    """A URL that no server can have. Raised by the address middleware; the outcome is then invalid."""


class RedirectError(FetchError):
    """A redirect that is not followed: a loop, too many, or no valid URL. Raised by the redirect middleware."""


class DecodingError(FetchError):
    """A response is not compressed as its headers say. Raised by the compression middleware; the outcome is network."""


class InvalidRecordError(HarvesterError, ValueError):
    """A record breaks a rule for its type. Raised where it is constructed; the validate pipeline rejects it."""


class PageFailed(HarvesterError):
    """A page arrived, but has not the expected content. Raised by callbacks and parsers that recognise it:

    `raise PageFailed("empty", "no parcel has this number")`. The outcome's policy then decides.
    """

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class TooCostlyError(PageFailed):
    """Reading some content exceeds its limit of time or memory. Raised by harvester.bounded; the outcome is invalid.

    So content that is too costly does not count as a fault of the program, whatever its source.
    """

    def __init__(self, reason: str) -> None:
        super().__init__("invalid", reason)


class NoProcessError(TooCostlyError):
    """Content cannot be read separately, since this machine starts no process. Raised by harvester.bounded.

    The outcome is `local`: the page is not the cause.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.outcome = "local"
