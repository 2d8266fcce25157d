"""The environment variables that make programs harvest a sandbox and nothing else."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from harvester.config import read_config
from harvester.sandbox.sources import instagram, youtube

DATABASE = "harvester_sandbox"
SITES = "sites"
"""Name of the folder with the counties' entries, inside the sandbox folder."""


def settings(url: str, folder: Path, counties: Sequence[str] = ()) -> dict[str, str]:
    """Returns environment variables that replace the network by the sandbox at `url`.

    Results go below `folder`, an absolute path. `counties` are the hosts of the served counties, whose entries lie in
    the folder. The user's private hosts stay allowed.

    Settings for the real network are replaced too, such as a login or a bucket for pictures. With a MongoDB of the
    user, the records go there, into a separate database.
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
    """Returns the user's private hosts, which the command may need as well."""
    return [host for each in read_config().private_hosts.split(",") if (host := each.strip())]
