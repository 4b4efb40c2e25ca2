"""What differs between the databases that hold a store: sessions, limits, and the words for what goes wrong."""
