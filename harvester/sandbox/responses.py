"""Responses of the site before they are sent, and the errors of the API."""

from dataclasses import dataclass, field

import msgspec

JSON_TYPE = "application/json; charset=utf-8"
HTML_TYPE = "text/html; charset=utf-8"


@dataclass(slots=True)
class SandboxAnswer:
    """A status, a body and its type. The server adds the common headers."""

    body: bytes
    status: int = 200
    content_type: str = JSON_TYPE
    headers: dict[str, str] = field(default_factory=dict)


class XrpcError(Exception):
    """Raised by endpoints, with the API's error name, its message and the status."""

    def __init__(self, error: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.error, self.message, self.status = error, message, status

    def answer(self) -> SandboxAnswer:
        return error_answer(self.error, self.message, self.status)


def json_answer(value: object, status: int = 200) -> SandboxAnswer:
    return SandboxAnswer(msgspec.json.encode(value), status)


def error_answer(error: str, message: str, status: int) -> SandboxAnswer:
    return json_answer({"error": error, "message": message}, status)


def html_page(title: str, text: str, status: int = 200) -> SandboxAnswer:
    head = f"<head><title>{title}</title></head>"
    body = f"<html>\n{head}\n<body>\n<h1>{title}</h1>\n<p>{text}</p>\n</body>\n</html>\n"
    return SandboxAnswer(body.encode(), status, HTML_TYPE)


def forbidden_page() -> SandboxAnswer:
    """Returns the page that the edge of the AppView sends to refused callers."""
    return html_page("403 Forbidden", "Request forbidden by administrative rules.", 403)
