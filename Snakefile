# Every notebook from scratch at small sizes, into out/small, one job each, by hand or on a cluster (docs/guides/sweeps.md):
#   snakemake --cores 2 --nolock --rerun-incomplete --keep-going
# Nothing tracked is written. config: profile=small, only="10 12", threads=1
import os
import sys

from companion.app import gate, runner

runner.die_with(os.environ.get(runner.WATCH))
os.environ[runner.WATCH] = runner.this_process()  # the jobs on this host die with this process

PROFILE = config.get("profile", "small")
BOOKS = [book.name for book in gate.select(config.get("only", ""))]


wildcard_constraints:
    name=r"\d\d_\w+",


rule all:
    input:
        expand("out/{profile}/{name}.ipynb", profile=PROFILE, name=BOOKS),


rule notebook:
    input:
        "notebooks/{name}.ipynb",
        "notebooks/profiles.yaml",
    output:
        "out/{profile}/{name}.ipynb",
    threads: int(config.get("threads", 1))
    shell:
        "SFLKIT_THREADS={threads} {sys.executable:q} -m sflkit.cli run {wildcards.name} --profile {wildcards.profile}"
