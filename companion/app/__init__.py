"""The `sflkit` command, the strict gate around papermill and the explorers: the only part that
knows of notebooks.
"""
