"""Kills and freezes the processes of `txnscope watch`, alone and in pairs. Also starves all processes. Measures how the
application recovers."""
