"""The login: one session, shared, renewed in time, shown to nobody."""
