"""The settings with which programs harvest a sandbox, and nothing else."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from harvester.config import read_config
from harvester.sandbox.sources import instagram, youtube

DATABASE = "harvester_sandbox"
SITES = "sites"
"""Folder of the entries of its counties, below its own."""


def settings(url: str, folder: Path, counties: Sequence[str] = ()) -> dict[str, str]:
    """Environment variables: the sandbox at `url` is the network, and what comes of it lies in `folder` (absolute).

    `counties`: hosts of those that it serves, whose entries lie in the folder. Private hosts of the user's stay so.

    What may be set for the real network is set here too: a login, a bucket for pictures. With a MongoDB of the user's
    the records go there, into a database of their own.
    """
    return {
        "HARVESTER_BLUESKY_SERVICE": url,
        "HARVESTER_BLUESKY_PDS": url,
        "HARVESTER_BLUESKY_IDENTIFIER": "",
        "HARVESTER_BLUESKY_APP_PASSWORD": "",
        "HARVESTER_PLC_URL": url,
        "HARVESTER_GOOGLE_TRENDS_URL": url,
        "HARVESTER_MASTODON_INSTANCES": url,
        "HARVESTER_TIKTOK_URL": url,
        "HARVESTER_YOUTUBE_URL": f"{url}/youtube/v3",
        "HARVESTER_YOUTUBE_KEY": youtube.KEY,
        "HARVESTER_INSTAGRAM_URL": f"{url}/v26.0",
        "HARVESTER_INSTAGRAM_USER": instagram.USER,
        "HARVESTER_INSTAGRAM_TOKEN": instagram.TOKEN,
        "HARVESTER_PRIVATE_HOSTS": ",".join([urlsplit(url).netloc, *counties, *_private_hosts()]),
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_DATABASE": DATABASE,
        "HARVESTER_STATE_DIR": str(folder / ".harvester"),
        "HARVESTER_DATA_DIR": str(folder / "data"),
        "HARVESTER_IMAGES_STORE": str(folder / "data" / "images"),
        **({"HARVESTER_SITES_DIR": str(folder / SITES)} if counties else {}),
    }


def _private_hosts() -> list[str]:
    """The user's own, which the command may need as well."""
    return [host for each in read_config().private_hosts.split(",") if (host := each.strip())]
