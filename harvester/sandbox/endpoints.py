"""The endpoints of the site: from the parameters of a request to the response."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec

from harvester.sandbox import images
from harvester.sandbox.car import repository
from harvester.sandbox.ids import record_cid
from harvester.sandbox.posts import SandboxPost
from harvester.sandbox.responses import SandboxAnswer, XrpcError, error_answer, forbidden_page, html_page, json_answer
from harvester.sandbox.sessions import Sessions
from harvester.sandbox.sources.popular import Clock, popular
from harvester.sandbox.views import BadCursor, View, Views
from harvester.sandbox.web_client import web_page

_SEARCHED = 200
"""Number of accounts whose posts are searched."""
_DID = re.compile(r"did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]")
_HANDLE = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)
_IMAGE = re.compile(r"/img/([^/]+)/plain/(did:[^/]+)/([^/@]+)(?:@(\w+))?")
_PRESETS = frozenset({"avatar", "banner", "feed_thumbnail", "feed_fullsize"})
_LABELERS = {"atproto-content-labelers": "did:plc:sandboxlabelersandboxla;redact"}
_EXPOSED = "RateLimit-Limit, RateLimit-Reset, RateLimit-Remaining, RateLimit-Policy"
_ROBOTS = b"# Crawling the public API is allowed.\n# HTTP 429 says: too fast.\nUser-agent: *\nAllow: /\n"
_PDS_PATHS = ("/xrpc/com.atproto.repo.", "/xrpc/com.atproto.sync.", "/xrpc/com.atproto.server.")
_KEY = "zQ3shSandboxKeySandboxKeySandboxKeySandboxKeyS"


class Params:
    """The parameters of a call, checked against the lexicons."""

    def __init__(self, method: str, query: str, caller: int | None) -> None:
        self.method, self.caller = method, caller
        self._values = parse_qs(query, keep_blank_values=True)

    def optional(self, name: str) -> str | None:
        values = self._values.get(name)
        return values[0] if values else None

    def required(self, name: str) -> str:
        value = self.optional(name)
        if value is None:
            raise self.bad(f'Missing required key "{name}"')
        return value

    def many(self, name: str, most: int) -> list[str]:
        self.required(name)
        values = self._values[name]
        if len(values) > most:
            raise self.bad(f"array too big (maximum {most}, got {len(values)})")
        return values

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.optional(name)
        if text is None:
            return default
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise self.bad(f'Expected integer value type (got "{text}")')
        value = int(text)
        if value < least:
            raise self.bad(f"integer too small (minimum {least}, got {value})")
        if value > most:
            raise self.bad(f"integer too big (maximum {most}, got {value})")
        return value

    @property
    def limit(self) -> int:
        return self.number("limit", 50, 1, 100)

    @property
    def cursor(self) -> str | None:
        return self.optional("cursor")

    def identifier(self, name: str) -> str:
        """Returns a DID or a handle."""
        value = self.required(name)
        if not (_DID.fullmatch(value) or _HANDLE.fullmatch(value)):
            raise self.bad(f'Invalid AT identifier (got "{value}")')
        return value

    def bad(self, message: str) -> XrpcError:
        return XrpcError("InvalidRequest", f"Invalid {self.method} params: {message}")


class Endpoints:
    """Responds to all paths of the site except the control paths."""

    def __init__(self, views: Views, sessions: Sessions, thread_depth: int, clock: Clock) -> None:
        self._clock = clock
        self._views, self._sessions, self._thread_depth = views, sessions, thread_depth
        self._records, self._network, self._posts = views.records, views.network, views.posts
        self._methods: dict[str, Callable[[Params], object]] = {
            "app.bsky.actor.getProfile": self._profile,
            "app.bsky.actor.getProfiles": self._profiles,
            "app.bsky.graph.getFollowers": self._followers,
            "app.bsky.graph.getFollows": self._follows,
            "app.bsky.graph.getLists": self._lists,
            "app.bsky.graph.getList": self._list,
            "app.bsky.graph.getActorStarterPacks": self._packs,
            "app.bsky.graph.getStarterPack": self._pack,
            "app.bsky.feed.getAuthorFeed": self._feed,
            "app.bsky.feed.getPostThread": self._thread,
            "app.bsky.feed.getPosts": self._get_posts,
            "app.bsky.feed.getLikes": self._likes,
            "app.bsky.feed.getRepostedBy": self._reposted_by,
            "app.bsky.feed.searchPosts": self._search,
            "app.bsky.unspecced.getTrends": self._trends,
            "com.atproto.identity.resolveHandle": self._resolve,
            "com.atproto.repo.describeRepo": self._describe_repo,
            "com.atproto.repo.listRecords": self._list_records,
            "com.atproto.repo.getRecord": self._get_record,
            "com.atproto.sync.getRepo": self._repo,
            "com.atproto.sync.getRepoStatus": self._repo_status,
            "com.atproto.sync.getBlob": self._blob,
            "com.atproto.server.describeServer": self._describe_server,
        }
        self._procedures = {"com.atproto.server.createSession", "com.atproto.server.refreshSession"}

    def role(self, path: str) -> str | None:
        """Returns the name of the rate limit that counts a path; None for paths outside the PDS."""
        if not path.startswith(_PDS_PATHS):
            return None
        return {"createSession": "session", "getRepo": "repo"}.get(path.rpartition(".")[2], "pds")

    def answer(self, verb: str, path: str, query: str, authorization: str | None, body: bytes) -> SandboxAnswer:
        if not path.startswith("/xrpc/"):
            return self._other(path)
        method = path[6:]
        if method == "_health":
            return json_answer({"version": "0.4.1"})
        if method.startswith("com.atproto.server.") and method != "com.atproto.server.describeServer":
            return self._session(method, verb, authorization, body)
        call = self._methods.get(method)
        if call is None:
            raise XrpcError("MethodNotImplemented", "Method Not Implemented", 501)
        _check_verb(verb, "GET")
        params = Params(method, query, self._sessions.reader(authorization))
        try:
            value = call(params)
        except BadCursor:
            raise XrpcError("InternalServerError", "Internal Server Error", 500) from None
        answer = value if isinstance(value, SandboxAnswer) else json_answer(value)
        if self.role(path):
            answer.headers["access-control-expose-headers"] = _EXPOSED
        elif method.startswith("app.bsky.") and answer.status == 200:
            answer.headers |= _LABELERS
        return answer

    # Accounts and posts in parameters

    def _index(self, identifier: str) -> int | None:
        if identifier.startswith("did:"):
            return self._network.index_of_did(identifier)
        return self._network.index_of_handle(identifier)

    def _shown(self, params: Params, message: str) -> int:
        """Returns the account in the parameter `actor`. Hidden accounts raise an error, as if they did not exist."""
        actor = params.identifier("actor")
        index = self._index(actor)
        if index is None or self._network.hidden(index):
            raise XrpcError("InvalidRequest", message.format(actor))
        return index

    def _post(self, uri: str) -> SandboxPost | None:
        """Returns the post with an at-uri, which may hold a handle; None if it is missing or hidden."""
        parts = uri.split("/")
        if len(parts) == 5 and not parts[2].startswith("did:"):
            index = self._network.index_of_handle(parts[2])
            parts[2] = "" if index is None else self._network.did(index)
        post = self._posts.post_of_uri("/".join(parts))
        return None if post is None or self._network.hidden(post.author) else post

    # AppView

    def _profile(self, params: Params) -> object:
        index = self._index(params.identifier("actor"))
        kind = None if index is None else self._network.kind(index)
        if kind == "deactivated":
            raise XrpcError("AccountDeactivated", "Account is deactivated")
        if kind in ("takendown", "pds_takendown"):
            raise XrpcError("AccountTakedown", "Account has been suspended")
        if index is None or kind == "deleted":
            raise XrpcError("InvalidRequest", "Profile not found")
        return self._views.detailed(index)

    def _profiles(self, params: Params) -> View:
        found = [self._index(actor) for actor in params.many("actors", 25)]
        shown = [index for index in found if index is not None and not self._network.hidden(index)]
        return {"profiles": [self._views.detailed(index) for index in dict.fromkeys(shown)]}

    def _followers(self, params: Params) -> View:
        limit = params.limit
        index = self._shown(params, "Actor not found: {}")
        if "::" in (params.cursor or ""):
            return {"followers": [], "subject": self._views.profile(index)}
        return self._views.followers(index, limit, params.cursor)

    def _follows(self, params: Params) -> View:
        limit = params.limit
        index = self._shown(params, "Actor not found: {}")
        if "::" in (params.cursor or ""):
            return {"follows": [], "subject": self._views.profile(index)}
        return self._views.follows(index, limit, params.cursor)

    def _feed(self, params: Params) -> View:
        limit = params.limit
        index = self._shown(params, "Profile not found")
        if "::" in (params.cursor or ""):
            return {"feed": []}
        if params.caller is not None and self._network.blocked_pair(index, params.caller):
            blocker = self._network.kind(index) == "blocker"
            name, did = ("BlockedByActor" if blocker else "BlockedActor"), self._network.did(index)
            text = f"Requester is blocked by actor: {did}" if blocker else f"Requester has blocked actor: {did}"
            raise XrpcError(name, text)
        kind = params.optional("filter") or "posts_with_replies"
        return self._views.feed(index, limit, params.cursor, kind, params.optional("includePins") == "true")

    def _thread(self, params: Params) -> View:
        uri = params.required("uri")
        depth, height = params.number("depth", 6, 0, 1_000), params.number("parentHeight", 80, 0, 1_000)
        post = self._post(uri)
        if post is None:
            raise XrpcError("NotFound", f"Post not found: {uri}")
        return {"thread": self._views.thread(post, min(depth, self._thread_depth), height)}

    def _get_posts(self, params: Params) -> View:
        found = (self._post(uri) for uri in params.many("uris", 25))
        return {"posts": [self._views.post(post) for post in dict.fromkeys(found) if post is not None]}

    def _likes(self, params: Params) -> View:
        limit, uri = params.limit, params.required("uri")
        post = self._post(uri)
        return {"likes": [], "uri": uri} if post is None else self._views.likes(post, limit, params.cursor)

    def _reposted_by(self, params: Params) -> View:
        limit, uri = params.limit, params.required("uri")
        post = self._post(uri)
        return {"repostedBy": [], "uri": uri} if post is None else self._views.reposted_by(post, limit, params.cursor)

    def _search(self, params: Params) -> SandboxAnswer | View:
        """Searches posts. Callers without login are refused, as by the public AppView."""
        if params.caller is None:
            return forbidden_page()
        words, tag = params.required("q").lower(), params.optional("tag")
        limit, first = params.number("limit", 25, 1, 100), int(params.cursor or 0)
        hits = [
            post
            for account in range(min(self._network.size, _SEARCHED))
            if not self._network.hidden(account)
            for post in (SandboxPost(account, number) for number in range(self._posts.count(account)))
            if _bears(self._posts.record(post), words, tag)
        ]
        shown = hits[first : first + limit]
        more = {"cursor": str(first + limit)} if first + limit < len(hits) else {}
        return {"posts": [self._views.post(post) for post in shown], "hitsTotal": len(hits)} | more

    def _trends(self, params: Params) -> View:
        topics = [
            {
                "topic": each.name.lower(),
                "displayName": each.name,
                "link": f"/profile/trending.bsky.app/feed/{each.rank}",
                "startedAt": "2026-11-25T00:00:00.000Z",
                "postCount": each.uses,
                "actors": [],
            }
            for each in popular("bluesky", self._clock.now())
        ]
        return {"trends": topics[: params.number("limit", 10, 1, 25)]}

    def _lists(self, params: Params) -> View:
        index = self._shown(params, "Profile not found")
        return {"lists": [self._views.list_view(index)] if self._records.has_list(index) else []}

    def _packs(self, params: Params) -> View:
        index = self._shown(params, "Profile not found")
        packs = [self._views.pack_view(index, full=False)] if self._records.has_list(index) else []
        return {"starterPacks": packs}

    def _list(self, params: Params) -> View:
        limit, uri = params.limit, params.required("list")
        index = self._owner(uri)
        if index is None or uri != self._records.list_uri(index):
            raise XrpcError("InvalidRequest", "List not found")
        return self._views.list_page(index, limit, params.cursor)

    def _pack(self, params: Params) -> View:
        uri = params.required("starterPack")
        index = self._owner(uri)
        if index is None or uri != self._records.pack_uri(index):
            raise XrpcError("InvalidRequest", "Starter pack not found")
        return {"starterPack": self._views.pack_view(index, full=True)}

    def _owner(self, uri: str) -> int | None:
        parts = uri.split("/")
        index = self._index(parts[2]) if len(parts) == 5 else None
        return index if index is not None and self._records.has_list(index) else None

    def _resolve(self, params: Params) -> View:
        handle = params.required("handle")
        if not _HANDLE.fullmatch(handle):
            raise params.bad(f'Invalid handle (got "{handle}")')
        index = self._network.index_of_handle(handle)
        if index is None:
            raise XrpcError("InvalidRequest", "Unable to resolve handle")
        return {"did": self._network.did(index)}

    # PDS

    def _repo_owner(self, params: Params) -> int:
        identifier = params.identifier("repo")
        index = self._index(identifier)
        if index is None or self._network.kind(index) in ("deactivated", "pds_takendown", "deleted"):
            raise XrpcError("InvalidRequest", f"Could not find repo: {identifier}")
        return index

    def _describe_repo(self, params: Params) -> View:
        index = self._repo_owner(params)
        return {
            "handle": self._network.handle(index),
            "did": self._network.did(index),
            "didDoc": self._did_document(index),
            "collections": self._records.collections(index),
            "handleIsCorrect": self._network.kind(index) != "handle_invalid",
        }

    def _list_records(self, params: Params) -> View:
        limit, collection = min(params.limit, self._views.page_size), params.required("collection")
        index = self._repo_owner(params)
        entries = self._records.entries(index, collection)
        backwards, cursor = params.optional("reverse") != "true", params.cursor
        keys = list(reversed(entries)) if backwards else list(entries)
        if cursor is not None:
            keys = [key for key in keys if (key < cursor if backwards else key > cursor)]
        taken = keys[:limit]
        found = [self._row(index, collection, key, entries[key]()) for key in taken]
        return {"records": found} | ({"cursor": taken[-1]} if len(taken) == limit else {})

    def _get_record(self, params: Params) -> View:
        collection, key = params.required("collection"), params.required("rkey")
        index = self._repo_owner(params)
        record = self._records.record(index, collection, key)
        if record is None:
            uri = self._records.uri(index, collection, key)
            raise XrpcError("RecordNotFound", f"Could not locate record: {uri}")
        return self._row(index, collection, key, record)

    def _row(self, index: int, collection: str, key: str, record: dict[str, Any]) -> View:
        cid = None
        if collection == "app.bsky.feed.post":
            post = self._posts.post_of_rkey(index, key)
            cid = None if post is None else self._posts.cid(post)
        return {"uri": self._records.uri(index, collection, key), "cid": cid or record_cid(record), "value": record}

    def _repo(self, params: Params) -> SandboxAnswer:
        index = self._repo_of_did(params, "Could not find repo for DID: {}")
        return SandboxAnswer(
            repository(self._records, index), 200, "application/vnd.ipld.car", {"cache-control": "private"}
        )

    def _repo_of_did(self, params: Params, missing: str) -> int:
        did = params.required("did")
        index = self._network.index_of_did(did)
        kind = None if index is None else self._network.kind(index)
        if kind == "deactivated":
            raise XrpcError("RepoDeactivated", f"Repo has been deactivated: {did}")
        if kind == "pds_takendown":
            raise XrpcError("RepoTakendown", f"Repo has been takendown: {did}")
        if index is None or kind == "deleted":
            raise XrpcError("RepoNotFound", missing.format(did))
        return index

    def _repo_status(self, params: Params) -> View:
        did = params.required("did")
        index = self._network.index_of_did(did)
        kind = None if index is None else self._network.kind(index)
        if index is None or kind == "deleted":
            raise XrpcError("RepoNotFound", f"Could not find repo for DID: {did}")
        if kind in ("deactivated", "pds_takendown"):
            return {"did": did, "active": False, "status": "takendown" if kind == "pds_takendown" else kind}
        return {"did": did, "active": True, "rev": self._records.rev(index)}

    def _blob(self, params: Params) -> SandboxAnswer:
        cid = params.required("cid")
        self._repo_of_did(params, "Could not find repo for DID: {}")
        found = images.blob(cid)
        if found is None:
            raise XrpcError("InvalidRequest", "Blob not found")
        headers = {"content-disposition": f'attachment; filename="{cid}"', "x-content-type-options": "nosniff"}
        return SandboxAnswer(
            found[0], 200, found[1], headers | {"content-security-policy": "default-src 'none'; sandbox"}
        )

    def _describe_server(self, params: Params) -> View:
        domains = [".sandbox.test"]
        return {"did": "did:web:localhost", "availableUserDomains": domains, "inviteCodeRequired": False, "contact": {}}

    def _session(self, method: str, verb: str, authorization: str | None, body: bytes) -> SandboxAnswer:
        if method in self._procedures:
            _check_verb(verb, "POST")
            if method.endswith("createSession"):
                try:
                    wish = msgspec.json.decode(body, type=dict[str, Any])
                    index = self._sessions.login(wish["identifier"], wish["password"])
                except (msgspec.MsgspecError, KeyError, AttributeError):
                    raise XrpcError("InvalidRequest", 'Input must have the property "identifier"') from None
            else:
                index = self._sessions.refresh(authorization)
            return json_answer(self._sessions.tokens(index) | self._account(index))
        if method == "com.atproto.server.getSession":
            _check_verb(verb, "GET")
            return json_answer(self._account(self._sessions.caller(authorization)))
        raise XrpcError("MethodNotImplemented", "Method Not Implemented", 501)

    def _account(self, index: int) -> View:
        handle = self._network.handle(index)
        view: View = {"did": self._network.did(index), "didDoc": self._did_document(index), "handle": handle}
        view |= {"email": f"{handle.replace('.', '-')}@example.com", "emailConfirmed": False}
        if self._network.kind(index) == "deactivated":
            return view | {"active": False, "status": "deactivated"}
        return view | {"active": True}

    # Directory, pictures, pages

    def _did_document(self, index: int) -> View:
        did = self._network.did(index)
        return {
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/secp256k1-2019/v1"],
            "id": did,
            "alsoKnownAs": [f"at://{self._network.handle(index)}"],
            "verificationMethod": [
                {
                    "id": "#atproto",
                    "type": "EcdsaSecp256k1VerificationKey2019",
                    "controller": did,
                    "publicKeyMultibase": _KEY,
                }
            ],
            "service": [
                {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": self._views.base}
            ],
        }

    def _other(self, path: str) -> SandboxAnswer:
        path = path.replace("%3A", ":").replace("%3a", ":").replace("%40", "@")
        if path.startswith("/did:"):
            index = self._network.index_of_did(path[1:])
            if index is None:
                return json_answer({"message": f"DID not registered: {path[1:]}"}, 404)
            answer = json_answer(self._did_document(index))
            answer.content_type = "application/did+ld+json; charset=utf-8"
            return answer
        if path.startswith("/img/"):
            return self._image(path)
        if path == "/robots.txt":
            return SandboxAnswer(_ROBOTS, 200, "text/plain; charset=utf-8")
        if (page := web_page(path)) is not None:
            return page
        if path == "/page.html":
            return html_page("Sandbox", "A small network for tests.")
        return html_page("Not Found", "There is nothing here.", 404)

    def _image(self, path: str) -> SandboxAnswer:
        match = _IMAGE.fullmatch(path)
        if match is None:
            return error_answer("Error", "Invalid path", 400)
        preset, did, cid, kind = match.groups()
        if preset not in _PRESETS:
            return error_answer("Error", "Invalid path: bad preset", 400)
        if kind not in (None, "jpeg", "webp"):
            return error_answer("Error", "Invalid path: bad format", 400)
        index = self._network.index_of_did(did)
        kind = kind or "webp"
        content = None if index is None or self._network.hidden(index) else images.rendition(preset, cid, kind)
        if content is None:
            return error_answer("NotFoundError", "Blob not found", 404)
        return SandboxAnswer(
            content, 200, images.MIME[kind], {"cache-control": "public, max-age=31536000", "x-cache": "hit"}
        )


def _bears(record: dict[str, Any], words: str, tag: str | None) -> bool:
    """Returns True if a search for these words (`*` matches any) and this tag finds the record."""
    if words != "*" and words not in record["text"].lower():
        return False
    features = (feature for facet in record.get("facets", ()) for feature in facet["features"])
    tags = [*record.get("tags", ()), *(str(feature.get("tag", "")) for feature in features)]
    return tag is None or tag.lower() in (each.lower() for each in tags)


def _check_verb(verb: str, expected: str) -> None:
    if verb != expected:
        raise XrpcError("InvalidRequest", f"Incorrect HTTP method ({verb}) expected {expected}")
