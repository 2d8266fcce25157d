"""What talks to a controller on another machine: the same calls as `harvester.jobs.service` has here."""
