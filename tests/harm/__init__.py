"""Kills and freezes the processes of `txnscope watch`, alone and in pairs. Also starves all of them. Measures how the
application recovers."""
