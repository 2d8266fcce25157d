"""Spider middleware: passes a response without a page to the errback, as Scrapy's HttpError with its verdict."""

from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware as ScrapyHttpErrorMiddleware

from harvester.frontier.attempts import attempts_of
from harvester.outcomes import give_verdict, verdict_of

NO_PAGE = "Ignoring non-200 response"
"""The message of Scrapy's error."""


class HttpErrorMiddleware(ScrapyHttpErrorMiddleware):
    """Replaces Scrapy's, and runs like it after all downloader middlewares, so a project's own have seen the
    response.

    Statuses are allowed as in Scrapy. A site's rules may call a 404 a page, or refuse a page with status 200. A
    response that a project's middleware puts in the place of another is judged by its status alone.
    """

    def process_spider_input(self, response: Response) -> None:  # type: ignore[override]
        attempts = attempts_of(self.crawler)
        final = attempts.final(response)
        if final is None:
            self._judge_status(response)
        elif response.request and attempts.is_refused(response.request, response):
            verdict = final.verdict
            is_usual = 200 <= response.status < 300
            error = HttpError(response, f"{verdict.outcome}: {verdict.reason}" if is_usual else NO_PAGE)
            give_verdict(error, *final)
            raise error

    def _judge_status(self, response: Response) -> None:
        try:
            super().process_spider_input(response)
        except HttpError as error:
            give_verdict(error, verdict_of(error), 1)
            raise
