"""The spider `bluesky` as a user runs it, against a network whose whole truth is known."""
