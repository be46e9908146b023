"""Resumable work in a folder: locks, finished parts, saved states, metrics and progress."""
