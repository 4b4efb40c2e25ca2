"""Why something cannot be read or judged, or hangs: values with a code, and the one sentence each of them is shown as.

Facts travel and are stored as these values; code asks for their class or code and never looks into a sentence. Pure,
imports nothing of ours but itself. For all rooms.
"""
