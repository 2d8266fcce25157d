"""Public keys of Request.meta, which authors of spiders set or read beside Scrapy's own: see docs/adding-a-site.md.

"Written by" and "Read by" name rooms; spiders stand for those of other projects, too. A request of the frontier keeps
its meta while it waits in Redis, so the texts of the keys are part of stored data.
"""

JOB = "job"
"""Id of the job that the request belongs to; the scheduler writes it for requests of job items. Written by: frontier,
spiders. Read by: frontier, middlewares, spiders."""
SESSION_CHAIN = "identity_chain"
"""Name of the chain of requests that keeps one session. Written by: spiders. Read by: identities."""
SESSION_CHAIN_END = "identity_chain_end"
"""True on the last request of a chain; another chain may use its identity then. Written by: spiders. Read by:
identities."""
RENDER = "render"
"""True if a browser renders the page, whatever the site's entry says. Written by: browser, spiders. Read by:
middlewares."""
RENDERING = "rendering"
"""A dict like the table `[<site>.browser]`, for this page. Written by: browser, spiders. Read by: browser."""
CONDITIONAL = "conditional"
"""True if the page is fetched only when it changed, whatever the site's entry says. CHANGED_LATER: only the next
time. Written by: spiders. Read by: middlewares."""
CHANGED_LATER = "later"
EXPECTS = "harvester_expects"
"""`json` if other content is useless. An Accept header or a URL may show it, too. Written by: spiders. Read by:
outcomes."""
AUTHENTICATE = "authenticate"
"""True if the request is sent as the spider's account, when the account's own server has the URL; for a spider with
several accounts, the name of the account's site. Written by: spiders. Read by: identities, spiders."""
CAPTURED = "captured"
"""The responses to the page's own requests that its options named. Written by: browser. Read by: browser, spiders."""
HANDLER = "harvester_handler"
"""A key of download.handler.HANDLERS; without it the site's entry decides. Written by: middlewares, spiders. Read by:
download, middlewares."""
