"""The live page: NiceGUI on the controller's own app. It reads the services that the REST API reads.

A view is a function of the room (`room.py`): it builds what is shown once, and has the broadcaster change it when what
it reads has changed. Text that was harvested is only ever text here, never HTML.
"""
