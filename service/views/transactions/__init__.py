"""Transactional ids: what comes next, what ended their transactions, their timeline."""
