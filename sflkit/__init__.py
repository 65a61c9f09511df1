"""sflkit: the algorithms of four papers on federated learning with streams, small caches, weak
devices and forgetting.

Each paper has a package of its own: `sflkit.sfl` (cache rules), `sflkit.datastreams` (old and new
data), `sflkit.osafl` (weak devices) and `sflkit.fats` (forgetting). They stand on shared ones:
`sflkit.federated` trains clients, `sflkit.data` loads data sets, `sflkit.models` builds networks,
`sflkit.runs` keeps runs. Importing `sflkit` alone loads nothing."""

import time

__version__ = "0.2.0.dev0"
STARTED = time.time()  # no module of this package was loaded before
