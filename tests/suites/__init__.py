"""Official suites of the formats that are read, as files in a folder: `make suites SUITES=FOLDER` counts them."""
