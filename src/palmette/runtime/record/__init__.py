"""What happened in a run, as recorded and written to files.

operations  when operations were executed, as a worker reports it
activity    how busy the nodes were in a period, and their energy
trace_sums  which iterations a trace has whole, and the sums of the others
journal     the files of a run: ``metrics.jsonl`` and ``trace.jsonl``
"""
