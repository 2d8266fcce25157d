"""Keys and tokens that a person was given: requests carry them, and nothing signs in."""

from harvester.identities.cookies import Jar
from harvester.identities.credentials import Credentials
from harvester.identities.state import Session
from harvester.sites.identities import KeyLoginEntry


class KeyLogin:
    """Puts the credentials into headers. Only the site's responses show whether they are valid."""

    def __init__(self, key: KeyLoginEntry, credentials: Credentials) -> None:
        self._key = key
        self._credentials = credentials

    async def sign_in(self, old: Session | None) -> Session:
        return Session(Jar(), {name: self._credentials.fill(value) for name, value in self._key.headers.items()})
