"""Spider middleware: an answer that is no page goes to the errback, as Scrapy's HttpError, with the verdict on it."""

from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware as ScrapyHttpErrorMiddleware

from harvester.frontier.attempts import Final, attempts_of
from harvester.outcomes import Outcome, give_verdict, verdict_of


class HttpErrorMiddleware(ScrapyHttpErrorMiddleware):
    """In place of Scrapy's, and like it behind all downloader middlewares: the project's have seen the answer.

    Statuses are allowed as there. A site's rules may call a 404 a page, and find that a page of 200 is none. An answer
    that a middleware of the project puts in the place of another is judged by its status alone.
    """

    def process_spider_input(self, response: Response) -> None:  # type: ignore[override]
        final = attempts_of(self.crawler).final(response)
        if error := self._error(response, final):
            verdict, tries = final or (verdict_of(error), 1)
            give_verdict(error, verdict, tries)
            raise error

    def _error(self, response: Response, final: Final | None) -> HttpError | None:
        if final and final.verdict.outcome is Outcome.OK:
            return None
        if final and 200 <= response.status < 300:
            return HttpError(response, f"{final.verdict.outcome}: {final.verdict.reason}")
        try:
            super().process_spider_input(response)
        except HttpError as error:
            return error
        return None
