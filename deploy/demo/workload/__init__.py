"""Applications with transactions: healthy ones, and those that hang, time out, fence one another or expire.

Imported by the demo and by tests.
"""
