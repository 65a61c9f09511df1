"""Beyond the papers: what two of them make together, which no paper has tried.

A paper's package imports no other paper's, and so a combination has no home in either. This package
stands a floor above them. It holds only what joins them: forgetting from streaming caches (FATS and
SFL), OSAFL on SFL's caches, and the data-streams weights of old against new clients with caches at
the new ones. Notebook 92 shows the three.
"""
