"""Parts of a GPU runtime: each module states what may be said, what is built, and how it is registered."""
