"""A client of a controller on another machine, with the same calls as `harvester.jobs.service`."""
