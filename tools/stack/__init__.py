"""The stack commands behind make: the local stack on a rig with everything made for it, any other as its file says."""
