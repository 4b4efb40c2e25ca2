"""The databases that can hold a store: their sessions, their limits, and their errors in our words."""
