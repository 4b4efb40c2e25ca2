"""The rules for the records of one transactional.id: states, transitions, how transactions ended and why. Pure.

Every package that reads, stores or shows the transaction log may import this package, which itself imports only
`service.domain.reasons` of the project.
"""
