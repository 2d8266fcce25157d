"""The account of HARVESTER_BLUESKY_IDENTIFIER: a pair of tokens from com.atproto.server, for the account's own PDS."""

import logging
import re
from urllib.parse import urlsplit

from pydantic import SecretStr

from harvester.config import Config
from harvester.download.addresses import origin_of
from harvester.exceptions import UsageError
from harvester.identities.credentials import Credentials, SpiderAccount
from harvester.identities.logins import is_open
from harvester.sites import Site
from harvester.sites.identities import Identities, Refresh, SessionCheck, Sign, TokenLoginEntry

logger = logging.getLogger(__name__)

HOW_TO = (
    "Create an app password in Bluesky (Settings > Privacy and security > App passwords) and set "
    "HARVESTER_BLUESKY_IDENTIFIER and HARVESTER_BLUESKY_APP_PASSWORD, or unset both to go without a login. "
    "HARVESTER_BLUESKY_PDS says where to log in."
)
AT_ONCE = 1000
"""Requests at a time: more than a process sends, because the throttle of the PDS sets the limit."""

_is_app_password = re.compile(r"[a-z0-9]{4}(-[a-z0-9]{4}){3}", re.IGNORECASE).fullmatch


def account_of(config: Config) -> SpiderAccount | None:
    """Returns the account, None without a login. Raises UsageError for an incomplete login or a wrong server
    address."""
    identifier, password = config.bluesky_identifier, config.bluesky_app_password
    if not identifier and not password:
        return None
    word = password.get_secret_value().strip() if password else ""
    if not identifier or not word:
        raise UsageError(f"A login needs an identifier and a password, and one is missing. {HOW_TO}")
    user = identifier.strip().removeprefix("@")
    if not _is_app_password(word):
        logger.warning(
            "The password of %s does not look like an app password (xxxx-xxxx-xxxx-xxxx). "
            "One is safer: it can be revoked by itself and cannot change the account.",
            user,
        )
    service = _checked_service(config)
    host = urlsplit(service).netloc
    site = Site(name="bluesky", hosts=(host,), identities=_table(f"{service}/xrpc/com.atproto.server"))
    return SpiderAccount(site, Credentials(f"{user.lower()}@{host}", user, SecretStr(word), HOW_TO))


def _table(server: str) -> Identities:
    """Returns the table that a site's entry would have in TOML, apart from the names of settings."""
    return Identities(
        kind="token",
        credentials=("BLUESKY",),
        at_once=AT_ONCE,
        token=TokenLoginEntry(
            url=f"{server}.createSession",
            body={"identifier": "{user}", "password": "{password}"},
            token="accessJwt",
            origin="didDoc.service.#atproto_pds.serviceEndpoint",
            refresh=Refresh(
                url=f"{server}.refreshSession",
                headers={"Authorization": "Bearer {refresh_token}"},
                refresh_token="refreshJwt",
            ),
        ),
        check=SessionCheck(url=f"{server}.getSession", success=Sign(status=(200,))),
    )


def _checked_service(config: Config) -> str:
    """Returns the origin to log in at. Raises UsageError for an invalid address, or one without encryption."""
    address = config.bluesky_pds.strip()
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise UsageError(f"HARVESTER_BLUESKY_PDS is {address!r}, not an address like https://bsky.social")
    if is_open(address, config):
        raise UsageError(f"HARVESTER_BLUESKY_PDS is {address!r}: a password is sent over https only")
    return origin_of(address)
