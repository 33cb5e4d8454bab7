"""What each command of ``palmette reproduce`` writes and prints: a file a paper, everything, and their common frame."""
