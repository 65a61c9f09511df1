"""The lock of torch's random generator, of which a process has only one.

Layers draw their first weights from torch's global generator, when they are built and when they are
reset. Runs that share a process as threads would take draws from each other, and a seed would not
fix the first model. Whoever builds a network or draws its weights therefore holds this lock.
"""

import threading

lock = threading.RLock()
