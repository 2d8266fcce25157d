"""Ends the servers of tests."""

import asyncio


async def close(server: asyncio.Server) -> None:
    """Closes it, and leaves no connection open that it accepts just now: asyncio forgets to close such ones."""
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening.fileno())
    await asyncio.sleep(0)  # those that were accepted become transports
    server.close()
