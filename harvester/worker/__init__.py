"""Processes of `scrapy crawl` side by side: started, watched, started again, drained. `harvester worker` runs them."""
