"""All that is claimed in one table: ``python -m benchmarks.summary`` from the project's root."""

from benchmarks.summary.running import main

if __name__ == "__main__":
    main()
