"""What happened in a run, as recorded and written to files.

operations  when operations were executed, as a worker reports it
activity    how busy the nodes were in a period, and their energy
journal     the files of a run: ``metrics.jsonl`` and ``trace.jsonl``
"""
