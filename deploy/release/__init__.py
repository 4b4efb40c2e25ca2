"""Makes a release: `VERSION=1.0.0 make release`. It is made in folders of its own, and reaches the checkout at the end,
as one commit and a tag; nothing is pushed."""
