"""Logins: tokens that look like real ones and expire, and refresh tokens that work once."""

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from harvester.sandbox.network import Network
from harvester.sandbox.responses import XrpcError

_AUDIENCE = "did:web:localhost"
_EXPIRED = ("ExpiredToken", "Token has expired")
_UNVERIFIED = ("InvalidToken", "Token could not be verified")


class Sessions:
    """Makes and checks tokens. Only used and revoked tokens are stored."""

    def __init__(self, network: Network, access_seconds: float = 7_200, refresh_seconds: float = 7_776_000) -> None:
        self._network = network
        self.access_seconds = access_seconds
        self.refresh_seconds = refresh_seconds
        self._key = b"session%d" % network.seed
        self._serial = 0
        self._used: set[str] = set()
        self._revoked_before: dict[str, float] = {}
        self._expired_before: dict[str, float] = {}

    def login(self, identifier: str, password: str) -> int:
        """Returns the account that logs in. Its password is `pw-` and its handle."""
        network = self._network
        index = network.index_of_did(identifier) if identifier.startswith("did:") else self._by_handle(identifier)
        if index is None or network.kind(index) == "deleted" or password != f"pw-{network.handle(index)}":
            raise XrpcError("AuthenticationRequired", "Invalid identifier or password", 401)
        if network.kind(index) == "pds_takendown":
            raise XrpcError("AccountTakedown", "Account has been taken down", 401)
        return index

    def tokens(self, index: int) -> dict[str, str]:
        """Returns a new pair of tokens."""
        now, subject = int(time.time()), self._network.did(index)
        self._serial += 1
        common = {"aud": _AUDIENCE, "sub": subject, "iat": now}
        access = common | {"scope": "com.atproto.access", "exp": now + self.access_seconds, "n": self._serial}
        refresh = common | {"scope": "com.atproto.refresh", "exp": now + self.refresh_seconds}
        refresh["jti"] = hashlib.sha256(b"%d" % self._serial).hexdigest()
        return {"accessJwt": self._sign("at+jwt", access), "refreshJwt": self._sign("refresh+jwt", refresh)}

    def reader(self, authorization: str | None) -> int | None:
        """Returns the caller of an endpoint that also serves anonymous callers; None for these."""
        return None if authorization is None else self._account(self._claims(authorization, "com.atproto.access"))

    def caller(self, authorization: str | None) -> int:
        """Returns the caller of an endpoint that needs a login."""
        if authorization is None:
            raise XrpcError("AuthMissing", "Authentication Required", 401)
        return self._account(self._claims(authorization, "com.atproto.access"))

    def refresh(self, authorization: str | None) -> int:
        """Accepts a refresh token once, and returns its account."""
        if authorization is None:
            raise XrpcError("AuthMissing", "Authentication Required", 401)
        claims = self._claims(authorization, "com.atproto.refresh")
        if claims["jti"] in self._used:
            raise XrpcError("ExpiredToken", "Token has been revoked")
        self._used.add(claims["jti"])
        return self._account(claims)

    def revoke(self, did: str) -> None:
        """Ends every session of an account."""
        self._revoked_before[did] = time.time()

    def expire(self, did: str) -> None:
        """Ends the access tokens of an account. Its refresh tokens stay valid."""
        self._expired_before[did] = time.time()

    def _by_handle(self, handle: str) -> int | None:
        return self._network.index_of_handle(handle.removeprefix("@"))

    def _account(self, claims: dict[str, Any]) -> int:
        index = self._network.index_of_did(claims["sub"])
        if index is None:
            raise XrpcError(*_UNVERIFIED)
        return index

    def _sign(self, kind: str, claims: dict[str, Any]) -> str:
        head = ".".join(_pack(json.dumps(part).encode()) for part in ({"typ": kind, "alg": "HS256"}, claims))
        return f"{head}.{_pack(hmac.digest(self._key, head.encode(), 'sha256'))}"

    def _claims(self, authorization: str, scope: str) -> dict[str, Any]:
        token = authorization.removeprefix("Bearer ")
        head, _, signature = token.rpartition(".")
        if head.count(".") != 1:
            raise XrpcError("InternalServerError", "Internal Server Error", 500)
        if signature != _pack(hmac.digest(self._key, head.encode(), "sha256")):
            raise XrpcError("InvalidToken", "Malformed token", 401)
        payload = head.partition(".")[2]
        claims: dict[str, Any] = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if claims["scope"] != scope:
            raise XrpcError(*_UNVERIFIED)
        if claims["exp"] <= time.time() or claims["iat"] < int(self._revoked_before.get(claims["sub"], 0)):
            raise XrpcError(*_EXPIRED)
        if claims["sub"] in self._revoked_before and claims["iat"] <= self._revoked_before[claims["sub"]]:
            raise XrpcError(*_EXPIRED)
        if scope == "com.atproto.access" and claims["iat"] <= self._expired_before.get(claims["sub"], -1.0):
            raise XrpcError(*_EXPIRED)
        return claims


def _pack(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
