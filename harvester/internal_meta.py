"""Keys of Request.meta that harvester's own components use among themselves. Authors of spiders need none of them.

"Written by" and "Read by" name rooms; scripts/lint.py compares them with the code. See meta.py for the public keys.
"""

from harvester.meta import HANDLER

# Written by harvester's spiders, or for them

ITEMS_OF = "harvester_items_of"
"""Ids of the items that the request belongs to, among the page's items; without the key it belongs to all. Written
by: spiders. Read by: frontier."""
FLOW = "flow"
"""A sites.recording.Flow as data, with its row filled in: the steps to the page. Written by: spiders. Read by:
browser, cli."""
CHANGED_FOR = "harvester_changed_for"
"""A word for the purpose of a conditional request, if others fetch the same URL for another purpose. Written by:
spiders. Read by: middlewares."""
DONT_OBEY = "dont_obey_robotstxt"
"""Scrapy's own key: True if robots.txt does not bind the request. Written by: politeness. Read by: middlewares."""
FROM_ENVIRONMENT = "from_environment"
"""`headers`: name -> value, where `${NAME}` stands for an environment variable; `origin`: their only receiver. So a
waiting request contains no secrets. Written by: spiders. Read by: middlewares."""
QUOTA = "harvester_quota"
"""A politeness.quotas.Quota as a list, which limits attempts of the request. Written by: spiders. Read by:
middlewares."""
QUOTA_UNTIL = "harvester_quota_until"
"""Epoch seconds until a used-up quota has room again. Written by: middlewares. Read by: middlewares."""
MEDIA = "harvester_media"
"""True for an image or a PDF. Written by: pipelines. Read by: frontier, middlewares."""
STEP = "harvester_step"
"""True if the page only leads to others, so its success proves nothing about these. Written by: spiders. Read by:
breaker."""
NO_PROOF = "harvester_no_proof"
"""True if the page works while others do not, so that its success proves nothing about the site. Written by: spiders.
Read by: breaker."""
FLOWN = "harvester_flown"
"""The collected values and the step results of a page with FLOW. Written by: browser. Read by: browser, cli,
spiders."""
PART = "harvester_part"
"""A word for the part of the job item that the request fetches; failures are reported with it. Written by: spiders.
Read by: frontier."""
USAGE = "harvester_usage"
"""The fields of the page's items.Usage, if the site declares any. Written by: middlewares. Read by: items,
middlewares."""

# The frontier

START = "harvester_start"
"""The page of a start request, since each run of a crawl makes a request for it. Written by: frontier. Read by:
frontier."""
LEASE = "harvester_lease"
"""The delivery number of a request in progress. Written by: frontier. Read by: frontier, identities, middlewares,
proxies."""
ITEMS = "harvester_items"
"""Id and attempt for every job item that the request belongs to. Written by: frontier. Read by: breaker, frontier,
items, middlewares, spiders."""
ATTEMPTS = "harvester_tries"
"""Number of attempts so far. Written by: frontier. Read by: breaker, frontier, proxies."""
NOT_BEFORE = "harvester_not_before"
"""Epoch seconds until which a retry waits in the frontier. Written by: frontier. Read by: frontier."""
RETRY_REASON = "harvester_why"
"""Outcome and reason of the attempt before a retry, and whether it was counted (False: it was never sent). Written
by: frontier. Read by: frontier."""
PROBE = "harvester_probe"
"""Number of the half-open trial whose probe the request is. Written by: frontier. Read by: breaker, frontier,
middlewares."""
PARKED = "harvester_parked"
"""True if it was not sent, because its site's breaker is open or the run ends. Written by: middlewares. Read by:
frontier."""
LOCAL_ATTEMPTS = "harvester_local_tries"
"""Number of failures by a fault of this machine that other requests did not have. Written by: frontier. Read by:
download, frontier."""
UNREACHED_SINCE = "harvester_unreached_since"
"""Epoch seconds since which its host cannot be reached, for a spider that does not wait for ever. Written by:
frontier. Read by: frontier."""

# Outcomes and robots.txt

KNOWN_VERDICT = "harvester_known_verdict"
"""Outcome and reason, and optionally a rule's name, from a middleware that knows more than the classifier:
identities, proxy or redirect. Written by: identities, middlewares, proxies. Read by: middlewares."""
SITE_FILE = "harvester_site_file"
"""Marks robots.txt and similar files: sent without an identity, never rendered. Written by: politeness. Read by:
identities, middlewares."""
ROBOTS_WAITS = "harvester_robots_waits"
"""Number of waits in the frontier for robots.txt. Written by: middlewares. Read by: middlewares."""
VALIDATED = "harvester_validated"
"""Key of the validators that were sent with the request. Written by: middlewares. Read by: middlewares."""
SLOT = "harvester_slot"
"""The limiter and the site whose permit the request holds. Written by: browser, middlewares. Read by: browser,
middlewares."""

# Identities

CHECKOUT = "harvester_place"
"""Number of the identity's checkout that the request holds. Written by: identities. Read by: identities."""
CHAIN_BEGUN = "harvester_chain_begun"
"""Identity name and session generation that its chain started with. Written by: identities. Read by: identities."""
ASKED_AS = "harvester_asked_as"
"""Identity name and generation of the session that it was sent in, and the time (epoch seconds). Written by:
identities. Read by: identities, middlewares."""
SESSION_RENEWALS = "harvester_renewals"
"""Number of repeats because its session had ended. Written by: identities. Read by: identities."""
AVOID_IDENTITY = "harvester_avoid"
"""Name of the identity that was refused. Written by: identities. Read by: identities."""
REDIRECT_HELD_BACK = "harvester_redirect_held_back"
"""True if its response leads to the login page, where it must not be redirected. Written by: identities. Read by:
identities."""
SENT_OUTDATED = "harvester_sent_outdated"
"""True if it was sent in a session that ended while the request waited for its slot. Written by: identities. Read by:
identities."""
IDENTITY = "harvester_identity"
"""The identity's proxy session, which keeps its IP address the same. Written by: browser, identities. Read by:
browser, identities."""
LOGIN = "harvester_login"
"""The session of a login's request. Written by: browser, identities. Read by: identities."""
LOGIN_SITE = "harvester_login_site"
"""Name of the site whose hosts alone may receive a login's request. Written by: browser, identities. Read by:
identities."""
SIGN_IN = "harvester_sign_in"
"""The storage state before a login in a browser, or {}. The response has the one after it. Written by: browser. Read
by: browser."""
STORAGE_STATE = "storage_state"
"""The file with the storage state of an identity that a browser signed in, and the session's generation. Written by:
identities. Read by: browser, identities."""

# Proxies, browsers and download handlers

TIER = "harvester_proxy_tier"
"""The tier of proxies that the request uses, or used. Written by: proxies. Read by: breaker, identities, proxies."""
TIER_PROBE = "harvester_tier_probe"
"""Number of the tier's half-open trial whose probe the request is, until its outcome is known. Written by: proxies.
Read by: breaker, proxies."""
LEAST_TIER = "harvester_proxy_least"
"""The minimum tier of proxies after an escalation. Written by: proxies. Read by: proxies."""
PROXIES_ROTATED = "harvester_proxy_rotated"
"""Number of a tier's proxies that were tried so far because the site refused them. Written by: proxies. Read by:
proxies."""
BROWSERS_LOST = "harvester_browsers_lost"
"""Number of browsers that crashed while rendering it. Written by: middlewares. Read by: browser, middlewares."""
LED = "harvester_led"
"""True if the browser has followed redirects, recorded as Scrapy does. Written by: browser. Read by: browser."""

FETCHING_PROCESS_ONLY = frozenset({HANDLER, LOGIN, LOGIN_SITE, SIGN_IN, SITE_FILE, STORAGE_STATE})
"""Keys that let a request pass a check. The process that fetches it sets them; they are not stored in Redis."""
