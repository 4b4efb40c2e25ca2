"""Kills and freezes the processes of `txnscope watch`, alone and in pairs, starves all of them, and measures the
recovery of the application."""
