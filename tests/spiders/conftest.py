"""An empty folder, as those have who follow the documents."""

from tests.docs.conftest import house

__all__ = ["house"]
