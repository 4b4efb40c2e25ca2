"""Harm done to the processes of `txnscope watch`: killed, frozen and starved, alone and in pairs."""
