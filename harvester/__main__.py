"""`python -m harvester` is the command `harvester`."""

from harvester.cli import main

if __name__ == "__main__":
    main()
