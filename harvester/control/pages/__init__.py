"""The live page: NiceGUI on the controller's own app. It reads the services that the REST API reads.

A view is a function of the PageContext: it builds its elements once, and the broadcaster updates them when the data
changes. Harvested text is only ever shown as text, never as HTML.
"""
