"""What a stack file may say, and what it comes to."""
