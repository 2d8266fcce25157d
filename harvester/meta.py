"""Every key of Request.meta that harvester knows beside Scrapy's own: what it holds, who writes it and who reads it.

A request of the frontier keeps its meta while it waits in Redis, so the texts of the keys are part of stored data.
"""

# Written by spiders

JOB = "job"
"""The job that the request belongs to; of one that belongs to job items the scheduler writes it. Read by the scheduler:
jobs share the workers fairly, and each has its own seen requests."""
ITEMS_OF = "harvester_items_of"
"""Ids of those items of the page before to which the request belongs; without it, it belongs to all. Read and taken off
by the scheduler."""
SESSION_CHAIN = "identity_chain"
"""Name of the chain of requests that stays with one session. Read by the identities middlewares, and by the proxy
middleware where addresses stick to chains."""
SESSION_CHAIN_END = "identity_chain_end"
"""True on the last request of a chain, whose identity is then free for another one. Read by the identities
middleware."""
RENDER = "render"
"""Whether a browser renders the page, whatever the site's entry says. Read by the browser middleware."""
RENDERING = "rendering"
"""A dict like the table `[<site>.browser]`, for this page. Read by the browser room."""
FLOW = "flow"
"""A sites.recording.Flow as data, its row filled in: the steps that the page is shown by. Read by the browser room."""
CONDITIONAL = "conditional"
"""Whether the page is asked for only if it changed, whatever the site's entry says. CHANGED_LATER: not now, but the
next time. Read by the conditional middleware."""
CHANGED_LATER = "later"
CHANGED_FOR = "harvester_changed_for"
"""For whom it is asked for only then, in a word, where others ask for the same address and make something else of it.
Read by the conditional middleware."""
EXPECTS = "harvester_expects"
"""`json` when nothing else is of use. An Accept header and an address may say it too. Read by the classifier."""
DONT_OBEY = "dont_obey_robotstxt"
"""Whether robots.txt does not bind the request. Also written for robots.txt itself, by the robots middleware. Read by
the robots and usage middlewares."""
AUTHENTICATE = "authenticate"
"""Whether the request goes out in the name of the spider's account, if it has one and the address is at that account's
own server; of a spider with several, the name of the account's site. Read by the identities middleware."""
FROM_ENVIRONMENT = "from_environment"
"""`headers`: name -> value, in which `${NAME}` stands for a variable of the environment; `origin`: to which alone they
are sent. So that no secret stands in a request that waits. Read by the environment middleware."""
QUOTA = "harvester_quota"
"""A politeness.quotas.Quota as a list, of which each try of the request takes. Read by the quota middleware."""
QUOTA_UNTIL = "harvester_quota_until"
"""When there is room again in a quota that is used up, in seconds of the epoch. Written by the quota middleware, which
errbacks ask."""
MEDIA = "harvester_media"
"""The request is for a picture or a PDF. Written by the files pipeline, which counts them itself. Read by the outcome,
browser and usage middlewares."""

STEP = "harvester_step"
"""The page only leads on to others: that it is as it should be says nothing of those. Read by the breaker
middleware."""
NO_PROOF = "harvester_no_proof"
"""The page is as it should be while others are not, and has nothing of what changed in those: nothing speaks for the
site. Read by the breaker middleware."""

# Read by spiders

CAPTURED = "captured"
"""The answers to the page's own requests that its options named. Written by the browser room. Read by callbacks, the
outcome and the throttle middleware."""
FLOWN = "harvester_flown"
"""Of a page with FLOW: what was collected, and how its steps ended. Written by the browser room. Read by callbacks."""
PART = "harvester_part"
"""What the request asks for of its job item, in a word: a failure is told with it. Written by spiders. Read by the
scheduler."""
USAGE = "harvester_usage"
"""The fields of the page's items.Usage, if anything was said. Written by the usage middleware. Read by spiders."""
MISREAD = "misread"
"""How often the page was asked for again because its answer could not be read. Written and read by spiders."""

# The frontier: written by the scheduler unless said otherwise

START = "harvester_start"
"""What a start request asks for, since each run of a crawl makes one for it. Written and read by what saves feeds."""

LEASE = "harvester_lease"
"""The delivery under which the request is worked on. Read by all that treat requests of the frontier otherwise."""
ITEMS = "harvester_items"
"""Id and attempt of each job item that the request belongs to. Read by the scheduler, the batch and the breaker
middleware."""
ATTEMPTS = "harvester_tries"
"""How often it was tried. Written by the outcome middleware. Read by it, the breaker and the proxy middleware."""
NOT_BEFORE = "harvester_not_before"
"""Of a retry: until when it waits in the frontier, in seconds of the epoch. Written by the outcome middleware and by
`wait_in_frontier`. Read and taken off by the scheduler."""
RETRY_REASON = "harvester_why"
"""Of a retry: outcome and reason of the attempt before, and whether it counts as one (False: it was never sent).
Written and read as NOT_BEFORE."""
PROBE = "harvester_probe"
"""The trial of its site's breaker of which it is a probe. Read by the breaker middlewares."""
PARKED = "harvester_parked"
"""It was not sent, because its site is left alone or the run ends. Written by the breaker middlewares. Read by the
scheduler, which gives it back unspent."""
LOCAL_ATTEMPTS = "harvester_local_tries"
"""How often it failed for a fault of this machine that others did not have. Written by the outcome middleware. Read by
it and local health."""
UNREACHED_SINCE = "harvester_unreached_since"
"""Since when its host cannot be reached, in seconds of the epoch, of a spider that does not wait for ever. Written by
the outcome middleware. Read by it."""

# Outcomes and robots.txt

KNOWN_VERDICT = "harvester_known_verdict"
"""Outcome and reason, and maybe a rule's name, from a middleware that knows them better than the classifier does:
identities, proxy or redirect. Read and taken off by the outcome middleware."""
SITE_FILE = "harvester_site_file"
"""Marks robots.txt and similar files: sent without an identity, never rendered. Written by the robots middleware, for
the usage middleware too. Read by the identities and browser middlewares."""
ROBOTS_WAITS = "harvester_robots_waits"
"""How often the request has waited in the frontier for robots.txt. Written and read by the robots middleware."""
VALIDATED = "harvester_validated"
"""Key of the validators with which the page was asked for. Written and read by the conditional middleware."""
SLOT = "harvester_slot"
"""The limiter and the site whose permit the request holds. Written and read by the throttle middleware."""

# Identities: written and read by the identities middlewares unless said otherwise

CHECKOUT = "harvester_place"
"""Number of the identity's checkout that the request holds."""
CHAIN_BEGUN = "harvester_chain_begun"
"""Name and generation of the session in which its chain began."""
ASKED_AS = "harvester_asked_as"
"""Name and generation of the session in which it was sent, and when (seconds of the epoch)."""
SESSION_RENEWALS = "harvester_renewals"
"""How often it was repeated because its session had ended."""
AVOID_IDENTITY = "harvester_avoid"
"""Name of the identity that was refused."""
REDIRECT_HELD_BACK = "harvester_redirect_held_back"
"""Its answer leads to the login page, and must not be followed there."""
SENT_OUTDATED = "harvester_sent_outdated"
"""It was sent in a session that was known to have ended while the request waited for its slot."""
IDENTITY = "harvester_identity"
"""By which a proxy gives an identity the same address each time. Written by the identities middleware and logins. Read
by the proxy middleware and the browser room."""
LOGIN = "harvester_login"
"""Of a request of a login: the session in which it is sent. Written by logins. Read by the identities middleware."""
LOGIN_SITE = "harvester_login_site"
"""Of such a request: name of the site whose hosts alone may see it. Written and read by logins."""
SIGN_IN = "harvester_sign_in"
"""Of a login in a browser: the storage state to begin with, or {}. The answer's holds the one after it. Written and
read by the browser room."""
STORAGE_STATE = "storage_state"
"""Of an identity that a browser signed in: the file with its storage state, and the generation of its session. Written
by the identities middleware. Read by the browser room."""

# Proxies, browsers and download handlers

TIER = "harvester_proxy_tier"
"""The tier of proxies by which it leaves, or left. Written by the proxy middleware. Read by it and the breaker."""
TIER_PROBE = "harvester_tier_probe"
"""The trial of the tier's breaker of which it is a probe, until its outcome is told. Written by the proxy middleware.
Read and taken off by the breaker."""
LEAST_TIER = "harvester_proxy_least"
"""The tier to which it escalated, by which it leaves at least. Written and read by the proxy middleware."""
PROXIES_ROTATED = "harvester_proxy_rotated"
"""Through how many proxies of a tier it was sent so far because the site refused it. Written and read as LEAST_TIER."""
HANDLER = "harvester_handler"
"""A key of download.handler.HANDLERS; without it the site's entry decides. Written by the browser middleware. Read by
the download handler."""
BROWSERS_LOST = "harvester_browsers_lost"
"""How many browsers ended under it. Written and read by the browser middleware and its handler."""
LED = "harvester_led"
"""The browser has followed redirects, and they are told as Scrapy tells them. Written and read by the browser room."""

FETCHING_PROCESS_ONLY = frozenset({HANDLER, LOGIN, LOGIN_SITE, SIGN_IN, SITE_FILE, STORAGE_STATE})
"""Keys that let a request past a check. The process that fetches it sets them; they do not travel through Redis."""
