"""A solution of the self-checking exercise of notebook 93.

While there are too many samples, the label that has most gives one away, its oldest.
"""

import numpy as np
from sflkit.sfl.caches import Cache


class Balanced(Cache):
    """A cache that holds as many samples of each label as of every other, as far as it can."""

    def take(self, ids, labels, rng):
        ids = np.concatenate([self.ids, ids])
        labels = np.concatenate([self.labels, labels])
        while len(ids) > self.capacity:
            most = np.bincount(labels).argmax()
            oldest = np.flatnonzero(labels == most)[0]
            ids, labels = np.delete(ids, oldest), np.delete(labels, oldest)
        self.keep(ids, labels)


answer = Balanced
