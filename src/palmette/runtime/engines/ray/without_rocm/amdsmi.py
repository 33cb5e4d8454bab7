"""Shadows AMD's package of this name where that cannot find its library.

AMD's would fail in a way that Ray does not expect; this one fails as if it were not installed. See ``environment``.
"""

raise ImportError("no ROCm on this machine")
