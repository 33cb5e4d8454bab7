"""Meters of energy behind one protocol.

base       the protocol, and a reading
registry   meters by name, as ``--meter`` has them
zeus       RAPL, NVML, Jetson and Apple silicon through Zeus, the optional extra ``meters``
replay     a CSV or the log of a smart plug
catalogue  idle and busy watts of a machine of the catalogue by this machine's load: modelled, never measured
"""
