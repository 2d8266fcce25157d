"""Side-by-side measurements; `make bench` prints them."""
