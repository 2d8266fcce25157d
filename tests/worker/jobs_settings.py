"""Those of the tests of jobs, with what tells a supervisor how its workers are doing."""

from tests.jobs.settings import *  # noqa: F403
from tests.jobs.settings import EXTENSIONS as _EXTENSIONS

EXTENSIONS = _EXTENSIONS | {"harvester.worker.reporter.WorkerReporter": 650}
