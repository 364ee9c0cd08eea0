"""Who reaches whom in a stack: the table of flows, and the matrix that its policies come to."""
