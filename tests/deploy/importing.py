"""`python -m tests.deploy.importing EGG` imports all modules of the egg, and prints their names; it may be forked."""

import importlib
import pkgutil
import sys


def main(egg: str) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "harvester":  # that of the checkout
            del sys.modules[name]
    sys.path.insert(0, egg)
    package = importlib.import_module("harvester")
    for module in pkgutil.walk_packages(package.__path__, "harvester."):
        found = importlib.import_module(module.name)
        assert str(found.__file__).startswith(egg), found.__file__
        print(module.name)


if __name__ == "__main__":
    main(sys.argv[1])
