"""The pages of transactional ids: the list, one id with its transactions over time, and the ids that expire."""
