"""Publishes events about new and changed records: to a message broker, webhooks, Redis streams.

A TOML file names the receivers (`sinks`). The write that stores a record also marks it (`outbox`). One process at a
time holds a lease. It makes a delivery for each sink from each mark (`distribution`), and sends it until the receiver
has confirmed it (`delivering`). A record that changes in between is sent once, in its latest version.
"""
