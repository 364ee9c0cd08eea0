"""``python -m tools.doctor --stack X``: whether a cluster can carry a stack, and keeps its walls."""
