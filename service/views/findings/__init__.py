"""Findings as people read them: the headline, the plan of what to do, and the subject with its outlook."""
