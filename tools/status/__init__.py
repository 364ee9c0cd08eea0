"""What a stack's units do now, and whether a login to them works; `make status`."""
