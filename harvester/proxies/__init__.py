"""From where a site is asked: vendors' proxies and lists of one's own, their health, tiers and budgets."""
