"""Builds the site: `make site` runs `python -m docs.site`, which writes out/site/index.html.

Everything comes from what is committed: nothing is executed, no notebook and no figure is made
anew. `sources` lays the clone's texts out as Sphinx's sources, `links` checks what Sphinx made of
them, and between the two lie the pages that are written from records:

| module | pages | made from |
|---|---|---|
| `notebooks` | notebooks and their solutions | the committed outputs |
| `gallery` | every figure by paper and number | figures, their passports and verdicts |
| `verdicts` | every claim, and a table to filter | the recorded verdicts and parts |
| `errata` | every erratum with its places in the code | ERRATA.md |
| `reference` | the library, module by module | docstrings and sources |
"""
