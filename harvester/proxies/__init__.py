"""The proxies that requests leave by: vendors' gateways and one's own lists, with their health, tiers and budgets."""
