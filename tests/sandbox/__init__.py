"""Websites in processes of their own: harvester's sandbox of Bluesky, and the tree, the web and the street of tests."""
