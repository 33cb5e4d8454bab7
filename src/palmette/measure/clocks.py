"""Which clock to time layers with: the CPU time of this thread, where that is all the work.

A node's time of a layer is what the layer takes with a whole CPU to itself. On a machine that runs other programs
too, the wall clock counts their turns as well, the thread's own CPU time does not: on two cores shared by four busy
processes, AlexNet's fitted times were off by 14% with the one and by 5% with the other. But it counts this thread only,
so where other threads help (a module may start its own), and on Windows, where it ticks too coarsely, the wall clock is
used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter, process_time, thread_time

Clock = Callable[[], float]

# What other threads may do, such as drawing a progress bar, before they count as helping.
HELP_SHARE, HELP_S = 0.1, 0.002


def choose_clock(work: Callable[[], object]) -> Clock:
    """The clock to time such work with; runs the work once to find out."""
    thread_s, process_s = -thread_time(), -process_time()
    work()
    thread_s, process_s = thread_s + thread_time(), process_s + process_time()
    helped = process_s > (1 + HELP_SHARE) * thread_s + HELP_S
    return perf_counter if helped or sys.platform == "win32" else thread_time
