"""Downloader middleware: fills headers with secrets from the environment while a request is being sent."""

import os
import re
from collections.abc import Mapping
from typing import Any

from scrapy import Request
from scrapy.http import Response

from harvester.download.addresses import origin_of
from harvester.internal_meta import FROM_ENVIRONMENT
from harvester.masking import mask

_variable = re.compile(r"\$\{([^}]*)\}").sub


class EnvironmentMiddleware:
    """Stands nearest the network: copies of a request, for a retry or a redirect, contain no secrets."""

    def process_request(self, request: Request) -> None:
        """Fills the headers. A header whose variable is missing is left out: the site then reports the gap."""
        for name, value in _headers(request).items():
            if (filled := _filled(value)) is not None:
                request.headers[name] = filled

    def process_response(self, request: Request, response: Response) -> Response:
        _take_off(request)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        _take_off(request)


def _headers(request: Request) -> Mapping[str, str]:
    """Returns the headers that this URL's origin may receive."""
    given: Mapping[str, Any] = request.meta.get(FROM_ENVIRONMENT, {})
    return given["headers"] if given and origin_of(request.url) == given["origin"] else {}


def _take_off(request: Request) -> None:
    for name in _headers(request):
        request.headers.pop(name, None)


def _filled(value: str) -> str | None:
    """Returns the value with its variables filled in; None when the environment lacks one."""
    missing = []

    def fill(found: re.Match[str]) -> str:
        secret = os.environ.get(found[1], "").strip()  # from a file it ends with a line break, which no header may have
        mask.add(secret)
        missing.extend([] if secret else [found[1]])
        return secret

    filled = _variable(fill, value)
    return None if missing else filled
