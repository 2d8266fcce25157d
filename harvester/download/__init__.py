"""The downloads: the choice of the handler for a request, and the look-up of host names."""
