"""Where joules come from, behind one seam.

meter      what a meter is, and how one is named on the command line
zeus       RAPL, NVML, Jetson and Apple silicon through Zeus, the optional extra ``meters``
replayed   a CSV or the log of a smart plug
catalogue  idle and busy watts of a machine of the catalogue by this machine's load: modelled, never measured
"""
