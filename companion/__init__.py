"""What only this repository uses: claims, evidence, pictures, judging, pages, batch runs, teaching.

It imports `sflkit`; nothing in `sflkit` imports it, and the wheel of sflkit does not hold it.
"""
