"""Tells others of new and changed records: a message broker, webhooks, Redis streams.

Who is to be told stands in a TOML file (`sinks`). A record is marked in the write that stores it (`outbox`); one
process at a time, which holds a lease, makes a delivery of each mark for each sink (`distribution`) and sends it until
the receiver has confirmed it (`delivering`). A record that changes meanwhile is sent once, as it is then.
"""
