"""The security law of gpu-runtime: `baseline` states it, `law` judges by it."""
