"""Every key of Request.meta that harvester uses beside Scrapy's own: its value, its writer and its readers.

A request of the frontier keeps its meta while it waits in Redis, so the texts of the keys are part of stored data.
"""

# Written by spiders

JOB = "job"
"""Id of the job that the request belongs to; the scheduler writes it for requests of job items. Read by the
scheduler: jobs share the workers fairly, and each job has its own seen requests."""
ITEMS_OF = "harvester_items_of"
"""Ids of the items that the request belongs to, among the page's items; without the key it belongs to all. Read and
removed by the scheduler."""
SESSION_CHAIN = "identity_chain"
"""Name of the chain of requests that keeps one session. Read by the identities middlewares, and by the proxy
middleware where IP addresses stick to chains."""
SESSION_CHAIN_END = "identity_chain_end"
"""True on the last request of a chain; another chain may use its identity then. Read by the identities middleware."""
RENDER = "render"
"""True if a browser renders the page, whatever the site's entry says. Read by the browser middleware."""
RENDERING = "rendering"
"""A dict like the table `[<site>.browser]`, for this page. Read by harvester.browser."""
FLOW = "flow"
"""A sites.recording.Flow as data, with its row filled in: the steps to the page. Read by harvester.browser."""
CONDITIONAL = "conditional"
"""True if the page is fetched only when it changed, whatever the site's entry says. CHANGED_LATER: only the next
time. Read by the conditional middleware."""
CHANGED_LATER = "later"
CHANGED_FOR = "harvester_changed_for"
"""A word for the purpose of a conditional request, if others fetch the same URL for another purpose. Read by the
conditional middleware."""
EXPECTS = "harvester_expects"
"""`json` if other content is useless. An Accept header or a URL may show it, too. Read by the classifier."""
DONT_OBEY = "dont_obey_robotstxt"
"""True if robots.txt does not bind the request. Also written for robots.txt itself, by the robots middleware. Read by
the robots and usage middlewares."""
AUTHENTICATE = "authenticate"
"""True if the request is sent as the spider's account, when the account's own server has the URL; for a spider with
several accounts, the name of the account's site. Read by the identities middleware."""
FROM_ENVIRONMENT = "from_environment"
"""`headers`: name -> value, where `${NAME}` stands for an environment variable; `origin`: their only receiver. So a
waiting request contains no secrets. Read by the environment middleware."""
QUOTA = "harvester_quota"
"""A politeness.quotas.Quota as a list, which limits attempts of the request. Read by the quota middleware."""
QUOTA_UNTIL = "harvester_quota_until"
"""Epoch seconds until a used-up quota has room again. Written by the quota middleware, where errbacks read it."""
MEDIA = "harvester_media"
"""True for an image or a PDF. Written by the files pipeline, which counts these itself. Read by the outcome, browser
and usage middlewares."""

STEP = "harvester_step"
"""True if the page only leads to others, so its success proves nothing about these. Read by the breaker middleware."""
NO_PROOF = "harvester_no_proof"
"""True if the page works while others do not, so that its success proves nothing about the site. Read by the breaker
middleware."""

# Read by spiders

CAPTURED = "captured"
"""The responses to the page's own requests that its options named. Written by harvester.browser. Read by callbacks,
the outcome and the throttle middleware."""
FLOWN = "harvester_flown"
"""The collected values and the step results of a page with FLOW. Written by harvester.browser. Read by callbacks."""
PART = "harvester_part"
"""A word for the part of the job item that the request fetches; failures are reported with it. Written by spiders.
Read by the scheduler."""
USAGE = "harvester_usage"
"""The fields of the page's items.Usage, if the site declares any. Written by the usage middleware. Read by spiders."""
MISREAD = "misread"
"""Number of repeats because the response could not be read. Written and read by spiders."""

# The frontier: written by the scheduler unless stated otherwise

START = "harvester_start"
"""The page of a start request, since each run of a crawl makes a request for it. Written and read by saved feeds."""

LEASE = "harvester_lease"
"""The delivery number of a request in progress. Read by all components that treat the frontier's requests
differently."""
ITEMS = "harvester_items"
"""Id and attempt for every job item that the request belongs to. Read by the scheduler, the batch and the breaker
middleware."""
ATTEMPTS = "harvester_tries"
"""Number of attempts so far. Written by the outcome middleware. Read by it, the breaker and the proxy middleware."""
NOT_BEFORE = "harvester_not_before"
"""Epoch seconds until which a retry waits in the frontier. Written by the outcome middleware and by
`wait_in_frontier`. Read and removed by the scheduler."""
RETRY_REASON = "harvester_why"
"""Outcome and reason of the attempt before a retry, and whether it was counted (False: it was never sent). Written
and read like NOT_BEFORE."""
PROBE = "harvester_probe"
"""Number of the half-open trial whose probe the request is. Read by the breaker middlewares."""
PARKED = "harvester_parked"
"""True if it was not sent, because its site's breaker is open or the run ends. Written by the breaker middlewares.
Read by the scheduler, which returns it unspent."""
LOCAL_ATTEMPTS = "harvester_local_tries"
"""Number of failures by a fault of this machine that other requests did not have. Written by the outcome middleware.
Read by it and local health."""
UNREACHED_SINCE = "harvester_unreached_since"
"""Epoch seconds since which its host cannot be reached, for a spider that does not wait for ever. Written and read by
the outcome middleware."""

# Outcomes and robots.txt

KNOWN_VERDICT = "harvester_known_verdict"
"""Outcome and reason, and optionally a rule's name, from a middleware that knows more than the classifier:
identities, proxy or redirect. Read and removed by the outcome middleware."""
SITE_FILE = "harvester_site_file"
"""Marks robots.txt and similar files: sent without an identity, never rendered. Written by the robots middleware, and
for the usage middleware. Read by the identities and browser middlewares."""
ROBOTS_WAITS = "harvester_robots_waits"
"""Number of waits in the frontier for robots.txt. Written and read by the robots middleware."""
VALIDATED = "harvester_validated"
"""Key of the validators that were sent with the request. Written and read by the conditional middleware."""
SLOT = "harvester_slot"
"""The limiter and the site whose permit the request holds. Written and read by the throttle middleware."""

# Identities: written and read by the identities middlewares unless stated otherwise

CHECKOUT = "harvester_place"
"""Number of the identity's checkout that the request holds."""
CHAIN_BEGUN = "harvester_chain_begun"
"""Identity name and session generation that its chain started with."""
ASKED_AS = "harvester_asked_as"
"""Identity name and generation of the session that it was sent in, and the time (epoch seconds)."""
SESSION_RENEWALS = "harvester_renewals"
"""Number of repeats because its session had ended."""
AVOID_IDENTITY = "harvester_avoid"
"""Name of the identity that was refused."""
REDIRECT_HELD_BACK = "harvester_redirect_held_back"
"""True if its response leads to the login page, where it must not be redirected."""
SENT_OUTDATED = "harvester_sent_outdated"
"""True if it was sent in a session that ended while the request waited for its slot."""
IDENTITY = "harvester_identity"
"""The identity's proxy session, which keeps its IP address the same. Written by the identities middleware and logins.
Read by the proxy middleware and harvester.browser."""
LOGIN = "harvester_login"
"""The session of a login's request. Written by logins. Read by the identities middleware."""
LOGIN_SITE = "harvester_login_site"
"""Name of the site whose hosts alone may receive a login's request. Written and read by logins."""
SIGN_IN = "harvester_sign_in"
"""The storage state before a login in a browser, or {}. The response has the one after it. Written and read by
harvester.browser."""
STORAGE_STATE = "storage_state"
"""The file with the storage state of an identity that a browser signed in, and the session's generation. Written by
the identities middleware. Read by harvester.browser."""

# Proxies, browsers and download handlers

TIER = "harvester_proxy_tier"
"""The tier of proxies that the request uses, or used. Written by the proxy middleware. Read by it and the breaker."""
TIER_PROBE = "harvester_tier_probe"
"""Number of the tier's half-open trial whose probe the request is, until its outcome is known. Written by the proxy
middleware. Read and removed by the breaker."""
LEAST_TIER = "harvester_proxy_least"
"""The minimum tier of proxies after an escalation. Written and read by the proxy middleware."""
PROXIES_ROTATED = "harvester_proxy_rotated"
"""Number of a tier's proxies that were tried so far because the site refused them. Written and read like LEAST_TIER."""
HANDLER = "harvester_handler"
"""A key of download.handler.HANDLERS; without it the site's entry decides. Written by the browser middleware. Read by
the download handler."""
BROWSERS_LOST = "harvester_browsers_lost"
"""Number of browsers that crashed while rendering it. Written and read by the browser middleware and its handler."""
LED = "harvester_led"
"""True if the browser has followed redirects, recorded as Scrapy does. Written and read by harvester.browser."""

FETCHING_PROCESS_ONLY = frozenset({HANDLER, LOGIN, LOGIN_SITE, SIGN_IN, SITE_FILE, STORAGE_STATE})
"""Keys that let a request pass a check. The process that fetches it sets them; they are not stored in Redis."""
