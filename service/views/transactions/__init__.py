"""Transactional ids as people read them: the next event of each, the causes that ended its transactions, and its
timeline."""
