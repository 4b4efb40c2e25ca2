"""What facts mean, and what follows from them. Pure: no package but its own, no clock, no network. For all rooms."""
