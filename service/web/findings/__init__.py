"""The pages of findings: the list, one finding with its place, and the forms that mute or acknowledge it."""
