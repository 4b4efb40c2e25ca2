"""Domain types, and pure rules that derive findings, causes and verdicts from facts. Imports no package but itself and
reads neither a clock nor the network; every package may import it."""
