"""A process that uses a private server, told what to do on stdin; each line is answered with one on stdout.

python -m tests.stores.user mongodb <state_dir> [<umask>]
"""

import os
import sys
import time
from pathlib import Path

from harvester.exceptions import ServiceError
from harvester.stores.servers.kinds import SERVERS
from harvester.stores.servers.membership import join


def main() -> None:
    """`join` prints the address, `fork` leaves a child behind that never asked for one and prints its pid."""
    name, state_dir, *umask = sys.argv[1:]
    if umask:
        os.umask(int(umask[0]))
    for command in sys.stdin:
        if command == "join\n":
            try:
                print(join(SERVERS[name], Path(state_dir)), flush=True)
            except ServiceError as error:
                print("ServiceError", str(error).replace("\n", " "), flush=True)
        elif command == "fork\n":
            child = os.fork()
            if not child:
                time.sleep(600)
                os._exit(0)
            print(child, flush=True)


if __name__ == "__main__":
    main()
