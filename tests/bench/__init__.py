"""Side-by-side measurements; `make bench` prints them."""

import os

os.environ["HARVESTER_ALLOW_PRIVATE_HOSTS"] = "true"  # its servers are on loopback
