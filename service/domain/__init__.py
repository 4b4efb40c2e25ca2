"""Domain types and pure rules: what facts mean and what follows from them. Imports no package but itself and reads
neither a clock nor the network; every package may import it."""
