"""Slides for a lecture, one deck per paper, made of what is committed."""
