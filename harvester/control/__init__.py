"""The control room: the REST API, the page, metrics, and what both show of jobs, sites, runs and workers."""
