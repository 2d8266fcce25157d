"""Services of the control room for everything besides jobs: the page and the API call the same functions.

Each module covers one subject and has a class that is made from the process's JobService. The methods return frozen
dataclasses of bounded size. They raise harvester's usual exceptions: UsageError for invalid input, UnknownJob for an
unknown name, JobConflict when the current state does not allow the action, ServiceError for an unreachable server, and,
like JobService, PyMongoError.
"""
