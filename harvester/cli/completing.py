"""What the shell completes: names of spiders. `harvester --install-completion` tells the shell of it."""


def spider_names(incomplete: str) -> list[str]:
    """Those that begin so; none where the project cannot be read: the command itself says why."""
    from contextlib import redirect_stderr
    from io import StringIO

    from harvester.project import spider_loader

    try:
        with redirect_stderr(StringIO()):  # a message would stand in the middle of what is being typed
            known = sorted(spider_loader().list())
    except (Exception, SystemExit):  # noqa: BLE001
        return []
    return [name for name in known if name.startswith(incomplete)]
