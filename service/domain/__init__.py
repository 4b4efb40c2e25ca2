"""Domain types, and pure rules that derive findings, causes and verdicts from facts. Imports no other package of the
project, and reads neither a clock nor the network. Every package may import it."""
