"""Sends alerts to people through every configured channel."""
