"""Identities: one login for a storm, one jar for a chain, secrets nowhere."""
