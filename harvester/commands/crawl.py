"""`scrapy crawl`, with arguments checked first and distinct exit codes."""

import argparse
import logging
import sys
from importlib import import_module
from pathlib import Path

from scrapy import Spider
from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.exceptions import UsageError as ScrapyUsageError
from scrapy.utils.misc import load_object
from scrapy.utils.spider import iter_spider_classes

from harvester import logs
from harvester.addon import Addon
from harvester.commands.crawl_process import CrawlProcess
from harvester.config import load_config, names
from harvester.exceptions import INTERRUPTED, HarvesterError, UsageError
from harvester.frontier.scheduler import Scheduler
from harvester.masking import mask
from harvester.monitors.history import RunHistory, write_down_unopened
from harvester.monitors.summary import exit_code
from harvester.project import bad_value, fault_of_import, loader_of, unknown_spider
from harvester.shutdown import EXIT_CODE, STOPPED_AT_ONCE, fault_of
from harvester.spiders import stock
from harvester.spiders.arguments import check_arguments, print_arguments
from harvester.stores import mongodb, redis
from harvester.worker import interrupts

logger = logging.getLogger(__name__)


class CrawlCommand(ScrapyCrawl):
    """Crawls with one spider. Exit codes: see docs/running.md. `-a help` prints a spider's arguments."""

    requires_crawler_process = False  # it makes its own

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings
        self._help = "help" in opts.spargs
        opts.spargs = [argument for argument in opts.spargs if argument != "help"]
        try:
            Addon.update_pre_crawler_settings(self.settings)  # registers the formats that -o is checked against
        except HarvesterError as error:  # the configuration is bad, so the run cannot be recorded
            print(error, file=sys.stderr)
            sys.exit(error.exit_code)
        super().process_options(args, opts)
        # Scrapyd passes these as spider arguments.
        self.settings.set("SCRAPYD_JOB", opts.spargs.pop("_job", ""), priority="cmdline")
        opts.spargs.pop("_version", None)
        for name in sorted(names().intersection(self.settings)):
            logger.warning(
                "%s is no setting of Scrapy and is not read from there: set it in the environment or .env", name
            )
        try:
            loader_of(self.settings)
        except HarvesterError as error:  # Scrapy would show its traceback
            self._tell(args[0] if args else "", opts.spargs, error)
            sys.exit(error.exit_code)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings
        if unknown := next((word for word in args if word.startswith("-")), ""):
            raise ScrapyUsageError(f"there is no option {unknown}", print_help=False)
        if len(args) != 1:
            raise ScrapyUsageError("name one spider: harvester crawl <spider>", print_help=False)
        self.crawler_process = CrawlProcess(self.settings)
        try:
            spider = self._spider(args[0])
        except HarvesterError as error:
            self.exitcode = self._tell(args[0], opts.spargs, error)
            return
        if self._help:
            print_arguments(spider)
            return
        try:
            check_arguments(spider, opts.spargs)
            stock.prepare(self.settings, spider)
            redis.check_address(load_config())
            mongodb.check(load_config())
            if self._needs_redis(spider):
                redis.check(load_config())
                stock.connect(self.settings, load_config())
            self.exitcode = self._crawl(spider, opts)
        except HarvesterError as error:
            self.exitcode = self._tell(spider.name, opts.spargs, error)
        except Exception as error:
            if said := bad_value(error):
                self.exitcode = self._tell(spider.name, opts.spargs, UsageError(said))
                return
            logger.exception("The crawl could not begin")
            self.exitcode = self._tell(spider.name, opts.spargs, error)

    def _tell(self, spider: str, arguments: dict[str, str], error: Exception) -> int:
        """Logs as the last line why the crawl did not begin, and records it as a run. Returns the exit code."""
        assert self.settings
        write_down_unopened(self.settings, spider, arguments, error)
        said = str(error) if isinstance(error, HarvesterError) else f"The crawl could not begin: {fault_of(error)}"
        logs.say(mask(said), logging.ERROR)
        return error.exit_code if isinstance(error, HarvesterError) else 1

    def _spider(self, name: str) -> type[Spider]:
        assert self.crawler_process
        if name.endswith(".py"):
            return _spider_in(Path(name))
        try:
            return self.crawler_process.spider_loader.load(name)
        except KeyError:
            raise ScrapyUsageError(unknown_spider(name, self.crawler_process.spider_loader), print_help=False) from None

    def _needs_redis(self, spider: type[Spider]) -> bool:
        """Returns True if the spider uses the frontier, or shares a host's politeness with other processes."""
        assert self.settings
        scheduler = (spider.custom_settings or {}).get("SCHEDULER", self.settings["SCHEDULER"])
        return bool(load_config().requests_per_second) or issubclass(load_object(scheduler), Scheduler)

    def _crawl(self, spider: type[Spider], opts: argparse.Namespace) -> int:
        """Runs the spider and returns the exit code. Raises the error that kept the crawl from beginning."""
        process = self.crawler_process
        assert isinstance(process, CrawlProcess)
        crawler = process.create_crawler(spider)
        task = process.begin(crawler, **opts.spargs)
        process.start()
        error = task.exception() if task.done() and not task.cancelled() else None
        if crawler._extensions is None:
            if error:
                raise error
            interrupts.leave()  # a second signal, before anything was created
        stats = crawler.stats
        if not task.done():  # a second signal
            if not stats.get_value("start_time"):
                interrupts.leave()
            stats.set_value("finish_reason", stats.get_value("finish_reason", STOPPED_AT_ONCE))
        if (history := crawler.get_extension(RunHistory)) and history.opened and not history.closed:
            history.write_end()
        if error and EXIT_CODE not in stats.get_stats():
            raise error
        return exit_code(stats.get_stats(), int(process.bootstrap_failed) if task.done() else INTERRUPTED)


def _spider_in(path: Path) -> type[Spider]:
    """Returns the spider of a file outside any project. Saved requests name its methods only, so they still work."""
    if not path.is_file():
        raise UsageError(f"There is no file {path}.")
    sys.path.insert(0, str(path.resolve().parent))
    try:
        module = import_module(path.stem)
    except Exception as error:  # noqa: BLE001  the file may raise anything
        raise UsageError(f"{path} cannot be read: {fault_of_import(error)}") from None
    if Path((module.__spec__ and module.__spec__.origin) or "").resolve() != path.resolve():
        raise UsageError(f"{path} has the name of another module of Python, {module.__name__}: give it one of its own.")
    spiders = list(iter_spider_classes(module))
    if len(spiders) != 1:
        named = ", ".join(spider.name for spider in spiders) or "none"
        raise UsageError(f"{path} must hold one spider, and holds {named}")
    return spiders[0]
