"""A process that uses a login: `python -m tests.identities.bluesky.use_login renew|use`, configured by the environment.

It prints a digest of its access token. With `renew` it then waits for a line, takes the token as refused, and
prints the digest of the next one.
"""

import asyncio
import hashlib
import sys

from harvester.config import Config
from harvester.identities.bluesky import Login


async def main(renew: bool) -> None:
    login = Login.from_config(Config())
    assert login is not None
    token = (await login.session()).access.get_secret_value()
    print(hashlib.sha256(token.encode()).hexdigest(), flush=True)
    if renew:
        sys.stdin.readline()
        await login.renew(token)
        token = (await login.session()).access.get_secret_value()
        print(hashlib.sha256(token.encode()).hexdigest(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] == "renew"))
