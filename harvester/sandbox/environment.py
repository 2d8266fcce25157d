"""The settings with which programs harvest a sandbox, and nothing else."""

from pathlib import Path
from urllib.parse import urlsplit

from harvester.sandbox.sources import instagram, youtube

DATABASE = "harvester_sandbox"


def settings(url: str, folder: Path) -> dict[str, str]:
    """Environment variables: the sandbox at `url` is the network, and what comes of it lies in `folder` (absolute).

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
        "HARVESTER_PRIVATE_HOSTS": urlsplit(url).netloc,
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_DATABASE": DATABASE,
        "HARVESTER_STATE_DIR": str(folder / ".harvester"),
        "HARVESTER_DATA_DIR": str(folder / "data"),
        "HARVESTER_IMAGES_STORE": str(folder / "data" / "images"),
    }
