"""What can be looked at and done in the control room beside jobs: the page and the API call the same functions.

Each module is about one thing, and has a class that is made from the JobService of the process. What they return are
frozen dataclasses of bounded size. They raise what the house raises: UsageError for what cannot be used, UnknownJob for
what there is not, JobConflict for what the state of things does not allow, ServiceError for a server that is away; and,
as JobService does, PyMongoError.
"""
