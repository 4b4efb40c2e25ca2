"""Makes a release: `VERSION=1.0.0 make release`. The work is done in separate folders. At the end, the checkout gets
one commit and a tag; nothing is pushed."""
