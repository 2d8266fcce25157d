"""A process that uses a login: `python -m tests.identities.bluesky.use_login renew|use`, configured by the environment.

It prints a digest of its access token. With `renew` it then waits for a line, takes the token as refused, and
prints the digest of the next one.
"""

import asyncio
import hashlib
import sys

from harvester.config import Config
from harvester.identities.identity import Identity
from tests.identities.bluesky.signed_in import identity_of


async def show_token(identity: Identity) -> None:
    token = (await identity.ready()).headers["Authorization"]
    print(hashlib.sha256(token.encode()).hexdigest(), flush=True)


async def main(renew: bool) -> None:
    identity = identity_of(Config())
    await show_token(identity)
    if renew:
        sys.stdin.readline()
        identity.expire((await identity.ready()).generation)
        await show_token(identity)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] == "renew"))
