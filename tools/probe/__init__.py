"""A fresh run of a stack's probe, outside the graph: enforcement can stop while nothing of ours changes."""
