"""``python -m palmette``: the command line."""

from palmette_command import main

if __name__ == "__main__":
    main()
