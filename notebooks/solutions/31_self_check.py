"""A solution of the self-checking exercise of notebook 31.

Deadline and budget each leave room for a number of steps; the smaller of the two decides. Where
sending alone takes too much, the room is negative and the client is a straggler.
"""

import math


def answer(cycles, cpu_hz, upload_s, upload_j, deadline_s, budget_j, capacitance, max_steps):
    by_time = (deadline_s - upload_s) / (cycles / cpu_hz)
    by_energy = (budget_j - upload_j) / (capacitance / 2 * cycles * cpu_hz**2)
    return max(0, min(max_steps, math.floor(by_time), math.floor(by_energy)))
