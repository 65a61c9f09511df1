# One job per notebook: `make figures`, or by hand and on a cluster (see docs/guides/sweeps.md):
#   snakemake --cores 2 --nolock --rerun-incomplete --keep-going --config profile=paper threads=1
# A job's outputs lie under out/, never among the tracked files: a fresh clone has everything to do.
# It is done again when its notebook, its profile's overrides, the numbers that its paper prints,
# or the source of its paper's package or of a shared one change.
import json
import os
import sys

from companion.app import gate, runner

runner.die_with(os.environ.get(runner.WATCH))
os.environ[runner.WATCH] = runner.this_process()  # the jobs on this host die with this process

PROFILE = config.get("profile", "quick")
# Those that the profile names.
BOOKS = {book.name: book for book in gate.selection(PROFILE, config.get("only", ""))[0]}
# It shows what the others have found.
ALL_VERDICTS = "90"


def found_before(wildcards):
    """Return what must be done before: for the page of all verdicts, every other notebook."""
    others = (name for name in BOOKS if name != wildcards.name)
    if wildcards.name[:2] != ALL_VERDICTS:
        return []
    return expand("out/{profile}/{name}.done.json", profile=PROFILE, name=others)


wildcard_constraints:
    name=r"\d\d_\w+",


rule all:
    input:
        expand("out/{profile}/{name}.done.json", profile=PROFILE, name=BOOKS),


rule notebook:
    input:
        "notebooks/{name}.ipynb",
        lambda wildcards: runner.sources(wildcards.name),
        found_before,
    output:
        "out/{profile}/{name}.ipynb",
        "out/{profile}/{name}.done.json",
    params:
        overrides=lambda wildcards: json.dumps(
            gate.resolve(BOOKS[wildcards.name], wildcards.profile), sort_keys=True
        ),
    threads: int(config.get("threads", 1))
    shell:
        "SFLKIT_THREADS={threads} {sys.executable:q} -m sflkit.cli "
        "run {wildcards.name} --profile {wildcards.profile} --publish"
