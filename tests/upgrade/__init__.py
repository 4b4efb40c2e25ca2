"""Upgrades a running txnscope from an older revision to the present one under load, and rolls it back."""
