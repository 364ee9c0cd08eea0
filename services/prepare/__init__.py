"""Fills a volume with a copy or with downloads; the bundle's `prepare` starts it, and writes the marker after it."""
