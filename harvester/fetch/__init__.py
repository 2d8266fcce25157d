"""What decides about an attempt: the steps that judge it, and the decision that follows from their advice."""
