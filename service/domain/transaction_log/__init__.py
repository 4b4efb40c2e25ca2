"""What the records of one transactional.id say: states, transitions, how transactions ended and why. Pure.

Imported wherever the transaction log is read, kept or shown; imports nothing of ours but itself.
"""
