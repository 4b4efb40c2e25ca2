"""Kills and freezes the processes of `txnscope watch`, alone and in pairs, starves all of them, and measures how the
application recovers."""
