"""What takes many minutes: `make soak`."""
