"""What gpu-runtime costs: ratios against a bare program, and seconds on a rig."""
