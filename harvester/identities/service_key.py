"""The account of a service with its key in a setting."""

from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import urlsplit

from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.identities.credentials import Credentials, SpiderAccount
from harvester.identities.logins import is_open
from harvester.sites import Site
from harvester.sites.identities import Identities, KeyLoginEntry


def key_account(
    config: Config, name: str, url: str, key: SecretStr, headers: Mapping[str, str], advice: str
) -> SpiderAccount:
    """Returns the account. `headers` hold the key as `{password}`; `advice` is for people when the key is refused.

    Raises UsageError when others could read the key on its way.
    """
    if is_open(url, config):
        raise UsageError(f"{url} is asked over http, and the key of {name} is sent over https only.")
    table = Identities(kind="key", credentials=(name.upper(),), key=KeyLoginEntry(headers=dict(headers)))
    site = Site(name=name, hosts=(urlsplit(url).netloc,), identities=table)
    digest = sha256(key.get_secret_value().encode()).hexdigest()[:12]  # another key is another identity
    return SpiderAccount(site, Credentials(digest, digest, key, advice))
