"""Several processes of `scrapy crawl`: starting, watching, restarting and draining them.

`harvester worker` runs them.
"""
