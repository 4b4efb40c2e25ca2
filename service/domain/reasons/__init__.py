"""Why something cannot be read or judged: values with a code, and the one sentence that each of them is shown as.

Facts travel and are stored as these values; code asks for their class or code and never looks into a sentence. For all
rooms.
"""
