"""The same spider on scrapy-redis as it comes, but that the queue is kept when a worker ends."""

from harvester.config import load_config
from tests.chaos.settings import *  # noqa: F403

_url = load_config().redis_url

SCHEDULER = "scrapy_redis.scheduler.Scheduler"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = True  # default False: the first worker that ends empties the queue of all
REDIS_URL = _url.get_secret_value() if _url else None
CONCURRENT_REQUESTS = 16  # Scrapy's default: what is in flight is lost, so that more would be unfair
CONCURRENT_REQUESTS_PER_DOMAIN = 8  # likewise
