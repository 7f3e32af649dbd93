"""What networks are worth: figures in every pose, how sure they are, and pictures of mistakes."""
