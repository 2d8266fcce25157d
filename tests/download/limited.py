"""`python -m tests.download.limited <files> ...` is `python -m tests.frontier.crawl ...` with so many files open."""

import resource
import runpy
import sys

if __name__ == "__main__":
    most = int(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    runpy.run_module("tests.frontier.crawl", run_name="__main__", alter_sys=True)
