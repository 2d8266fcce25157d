"""The identities that requests use: cookies, headers and logins, with their health and their saved sessions."""
