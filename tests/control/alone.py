"""`python -m tests.control.alone PORT`: a controller in a process of its own, to be killed."""

import sys

import uvicorn

from harvester.config import load_config
from harvester.control.app import create_app


def main(port: int) -> None:
    uvicorn.run(create_app(load_config()), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))
