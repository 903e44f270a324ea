# SPDX-License-Identifier: MIT
"""Hooks of trainers; each module imports what it hooks into."""
