"""Makes the documentation as a static site, and the man page: `make docs`."""
