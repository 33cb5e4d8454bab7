"""What each command of ``palmette reproduce`` writes and prints."""
