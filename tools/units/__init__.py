"""One unit at a time: `make stop|start|restart|logs UNIT=<unit>.<tenant>`."""
