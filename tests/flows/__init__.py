from pathlib import Path

RECORDINGS = Path(__file__).parent / "recordings"
VALID = ("county_disclaimer_search", "infinite_scroll_feed", "shadow_iframe_popup")
"""Recordings that can be done."""
