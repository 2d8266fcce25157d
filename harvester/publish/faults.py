"""Describes a receiver's failure in a few plain words, without bytes from it and without objects of a library."""

import os
import re
import ssl

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientPayloadError,
    ClientResponseError,
    ClientSSLError,
    ServerDisconnectedError,
)

from harvester.formatting import shown

_object_or_bytes = re.compile(r"""[\s:;,('"\[]*(?:<\w[^>]*[=(@].*|<[\w.]+ object\b.*|\bb(?:'.*|".*))""", re.DOTALL)
"""Quotes of a library, and everything after them: `<RawResponseMessage(...)>`, `<... object at 0x7f...>`, `b'...'`."""


def describe_fault(error: BaseException) -> str:
    """Returns the fault as a part of a sentence."""
    match error:
        case ClientConnectorDNSError():
            return f"its host {error.host} cannot be resolved: {_reason(error.os_error)}"
        case ClientConnectorCertificateError():
            said = getattr(error.certificate_error, "verify_message", "") or "it does not verify"
            return f"the certificate of {error.host} is not trusted: {said}"
        case ClientSSLError():
            return f"{error.host}:{error.port} does not speak TLS as it should: {_reason(error.os_error)}"
        case ClientConnectorError():
            return f"{error.host}:{error.port} cannot be connected to: {_reason(error.os_error)}"
        case ServerDisconnectedError():
            return "it closed the connection before it had answered"
        case ClientResponseError():  # its message quotes the response
            return f"it answered what is no HTTP ({_plain(error.message.partition(':')[0])})"
        case ClientPayloadError():
            return "its answer broke off"
        case OSError():
            return _reason(error)
        case ClientError():
            return _plain(str(error)) or type(error).__name__
    return _plain(str(error)) or type(error).__name__


def _reason(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else ""
    if reason:
        return reason.replace("_", " ").lower()
    if error.errno and error.errno > 0:  # several tries share one text
        return os.strerror(error.errno)
    return _plain(error.strerror or str(error)) or type(error).__name__


def _plain(text: str) -> str:
    return shown(" ".join(_object_or_bytes.sub("", text).split())).rstrip(" .:")
