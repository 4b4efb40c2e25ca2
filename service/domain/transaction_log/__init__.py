"""The rules for the records of one transactional.id: states, transitions, how transactions ended and why. Pure.

Every package that reads, stores or shows the transaction log may import it. It imports no other package of the project
except `service.domain.reasons`.
"""
